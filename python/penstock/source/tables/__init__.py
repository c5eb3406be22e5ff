"""Arrow tables to columns: what Parquet, Arrow, CSV, JSON and SQL have in common."""
