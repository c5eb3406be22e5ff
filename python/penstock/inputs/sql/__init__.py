"""SQL queries: PostgreSQL, SQLite, DuckDB and Flight SQL, read by ranges of a key."""
