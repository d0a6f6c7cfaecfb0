"""The parts that both engines share: a database with many readers, and the handles to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from agentgym.base.errors import UsageError
from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits, QueryResult, TableInfo
from agentgym.tools.database.results import check_text, quote_name
from agentgym.tools.database.schema import COLUMN_TYPES, DatabaseSpec, Table

TRUSTED_LIMITS = QueryLimits(timeout_s=60.0)
"""For our own statements (such as counting the rows of a big file), which need no tight limits."""


class SharedDatabase(Protocol):
    """One open database, used by any number of handles and threads at a time."""

    engine: str
    schema: tuple[Table, ...]
    """The tables without rows, with the engine's type names."""

    def run(self, sql: str, limits: QueryLimits) -> QueryResult:
        """Run one statement that has passed `check_text`."""
        ...

    def row_count(self, table: str) -> int:
        """Return the number of rows in `table`, which exists."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...

    def after_fork(self) -> None:
        """In a forked child: forget the parent's resources."""
        ...


class DatabaseHandle:
    """A `Database`: one episode's access to a shared database."""

    def __init__(self, shared: SharedDatabase, limits: QueryLimits, release: Callable[[], None]):
        self.engine = shared.engine
        self._shared = shared
        self._limits = limits
        self._release: Callable[[], None] | None = release

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables, in definition order."""
        return tuple(table.name for table in self._open().schema)

    def describe(self, table: str, sample_rows: int = 3) -> TableInfo:
        """Describe `table`: columns, keys, number of rows and the first `sample_rows` rows."""
        shared = self._open()
        entry = find_table(shared.schema, table)
        sample = shared.run(f"SELECT * FROM {quote_name(entry.name)} LIMIT {max(0, sample_rows)}", self._limits)
        count = shared.row_count(entry.name)
        return TableInfo(entry.name, entry.columns, entry.primary_key, entry.foreign_keys, count, sample)

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        """Run one read-only statement."""
        shared, limits = self._open(), limits or self._limits
        check_text(sql, limits)
        return shared.run(sql, limits)

    def close(self) -> None:
        """Release the handle. Safe to call twice."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> DatabaseHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> SharedDatabase:
        if self._release is None:
            raise UsageError("this database handle is closed; open the database again")
        return self._shared


def find_table(schema: tuple[Table, ...], name: str) -> Table:
    """Return the table `name` (case-insensitive, as in SQL); a `QueryError` names the existing ones."""
    for same in (name.__eq__, lambda other: other.lower() == name.lower()):
        for table in schema:
            if same(table.name):
                return table
    names = ", ".join(table.name for table in schema)
    raise QueryError(f"No table {name!r}. Tables: {names}.", QueryErrorKind.SYNTAX)


def schema_of(spec: DatabaseSpec, type_names: dict[str, str]) -> tuple[Table, ...]:
    """Return the tables of `spec` without rows; raise `UsageError` if an engine does not support them.

    Args:
        spec: The database's content.
        type_names: The engine's name for each of `COLUMN_TYPES`.
    """
    for table in spec.tables:
        for column in table.columns:
            if column.type not in COLUMN_TYPES:
                where = f"column {column.name!r} of table {table.name!r} in {spec.name!r}"
                raise UsageError(f"{where} has type {column.type!r}; choose one of {', '.join(COLUMN_TYPES)}")
    return tuple(
        dataclasses.replace(
            table,
            rows=(),
            columns=tuple(dataclasses.replace(column, type=type_names[column.type]) for column in table.columns),
        )
        for table in spec.tables
    )
