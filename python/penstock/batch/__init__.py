"""Batching: rows are gathered into one buffer a column."""
