"""Parquet: files, footers, what a filter rules out, pages, parts."""
