"""SQLite: in-process databases, guarded statements, files."""
