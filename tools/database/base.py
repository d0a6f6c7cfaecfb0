"""What an engine offers to an environment: look, describe, query. Statements that fail raise `QueryError`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agentgym.errors import ToolError
from agentgym.tools.database.schema import Column, ForeignKey, Value


class QueryErrorKind(StrEnum):
    """Why a statement gave no result."""

    SYNTAX = "syntax"
    FORBIDDEN = "forbidden"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    TOO_LARGE = "too_large"
    RUNTIME = "runtime"


class QueryError(ToolError):
    """The statement's own fault, told to the model. What breaks in the engine is an `InfrastructureError`."""

    def __init__(self, message: str, kind: QueryErrorKind = QueryErrorKind.RUNTIME):
        super().__init__(message, kind)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class QueryLimits:
    """Bounds on one statement. Every one of them is enforced by the engine, whatever the statement does."""

    timeout_s: float = 2.0
    memory_mb: int = 512
    """For one statement in DuckDB; the value given at opening bounds later ones. SQLite is bounded as a whole."""
    max_rows: int = 1_000
    """Rows fetched; a result with more is `truncated`."""
    max_cell_chars: int = 2_000
    max_result_bytes: int = 1_000_000
    """Bytes of all cells; rows beyond are left out and the result is `truncated`."""
    max_sql_bytes: int = 20_000


@dataclass(frozen=True)
class QueryResult:
    """Rows of one statement, in the order the engine gave them."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """The engine's names. In SQLite the storage class of the first value that is not NULL."""
    rows: tuple[tuple[Value, ...], ...]
    truncated: bool
    """More rows (or longer cells) existed than `QueryLimits` let through."""
    elapsed_s: float


@dataclass(frozen=True)
class TableInfo:
    """What `describe` tells about a table."""

    name: str
    columns: tuple[Column, ...]
    primary_key: str | None
    foreign_keys: tuple[ForeignKey, ...]
    row_count: int
    sample: QueryResult


class Database(Protocol):
    """One open, read-only database. Used by one thread at a time per handle; handles share the data."""

    dialect: str
    """`"duckdb"` or `"sqlite"`."""

    def tables(self) -> tuple[str, ...]:
        """Names of the tables, in their defined order."""
        ...

    def describe(self, table: str, sample_rows: int = 3) -> TableInfo:
        """Describe `table`. Raises `QueryError` that names the existing tables if there is none such."""
        ...

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        """Run one read-only statement. Raises `QueryError`, or `InfrastructureError` if the engine broke."""
        ...

    def close(self) -> None:
        """Release the handle. Safe to call twice."""
        ...
