"""LitData chunks: items, rows in Arrow, windows of tokens."""
