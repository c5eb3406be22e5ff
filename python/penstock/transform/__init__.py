"""Transforms: columns to columns."""
