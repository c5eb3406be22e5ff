"""Batching: rows to one buffer."""
