"""Read-only databases for tools: plain data in, bounded query results out, with DuckDB or SQLite underneath."""

from agentgym.tools.database.base import (
    Database,
    QueryError,
    QueryErrorKind,
    QueryLimits,
    QueryResult,
    TableInfo,
)
from agentgym.tools.database.pool import ENGINES, DatabasePool, default_pool, open_database, open_file
from agentgym.tools.database.schema import (
    COLUMN_TYPES,
    Column,
    DatabaseSpec,
    ForeignKey,
    Table,
    Value,
)
from agentgym.tools.database.shared import DatabaseHandle

__all__ = [
    "COLUMN_TYPES",
    "ENGINES",
    "Column",
    "Database",
    "DatabaseHandle",
    "DatabasePool",
    "DatabaseSpec",
    "ForeignKey",
    "QueryError",
    "QueryErrorKind",
    "QueryLimits",
    "QueryResult",
    "Table",
    "TableInfo",
    "Value",
    "default_pool",
    "open_database",
    "open_file",
]
