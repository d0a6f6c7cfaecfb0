"""The interface of a database engine: list tables, describe them, run queries. Failed statements raise `QueryError`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agentgym.base.errors import Mistake, ToolError
from agentgym.tools.database.schema import Column, ForeignKey, Value


class QueryErrorKind(StrEnum):
    """Why a statement failed."""

    SYNTAX = "syntax"
    FORBIDDEN = "forbidden"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    TOO_LARGE = "too_large"
    RUNTIME = "runtime"


class QueryError(ToolError):
    """An error of the statement, shown to the model. Engine failures are an `InfrastructureError`."""

    def __init__(self, message: str, kind: QueryErrorKind = QueryErrorKind.RUNTIME):
        timeout = kind is QueryErrorKind.TIMEOUT
        super().__init__(message, kind, mistake=Mistake.TIMEOUT if timeout else Mistake.REFUSED)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class QueryLimits:
    """Limits of one statement. The engine enforces all of them, whatever the statement does."""

    timeout_s: float = 2.0
    memory_mb: int = 512
    """Per statement in DuckDB, at most the value given when the database was opened. SQLite has a global limit."""
    max_rows: int = 1_000
    """Maximum number of rows; a longer result is `truncated`."""
    max_cell_chars: int = 2_000
    max_result_bytes: int = 1_000_000
    """Maximum bytes of all cells; further rows are left out and the result is `truncated`."""
    max_sql_bytes: int = 20_000


@dataclass(frozen=True)
class QueryResult:
    """The rows of one statement, in the engine's order."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """The engine's type names; in SQLite, the storage class of the first non-NULL value."""
    rows: tuple[tuple[Value, ...], ...]
    truncated: bool
    """The result had more rows (or longer cells) than `QueryLimits` allow."""
    elapsed_s: float


@dataclass(frozen=True)
class TableInfo:
    """A table's description, as returned by `describe`."""

    name: str
    columns: tuple[Column, ...]
    primary_key: str | None
    foreign_keys: tuple[ForeignKey, ...]
    row_count: int
    sample: QueryResult


class Database(Protocol):
    """One open, read-only database. Use each handle in one thread at a time; handles share the data."""

    engine: str
    """`"duckdb"` or `"sqlite"`."""

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables, in definition order."""
        ...

    def describe(self, table: str, sample_rows: int = 3) -> TableInfo:
        """Describe `table`. If it does not exist, raises a `QueryError` that names the existing tables."""
        ...

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        """Run one read-only statement. Raises `QueryError`, or `InfrastructureError` if the engine failed."""
        ...

    def close(self) -> None:
        """Release the handle. Safe to call twice."""
        ...
