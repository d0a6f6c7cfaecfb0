"""DuckDB: a worker process for each pool, guarded statements, files."""
