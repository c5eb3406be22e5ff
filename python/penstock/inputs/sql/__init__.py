"""SQL queries: PostgreSQL, SQLite and DuckDB, read by ranges of a key."""
