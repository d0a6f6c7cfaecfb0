"""A generated database that families ask about: its column values, and a private SQLite copy to try gold SQL on.

Only task generation uses this; episodes run on the engines in `agentgym.tools.database`.
"""

from __future__ import annotations

import datetime
import sqlite3
import weakref
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from agentgym.tasks.sql.database import generate_database
from agentgym.tasks.sql.domains import ColumnDecl, Domain, load_domain
from agentgym.tools.database.schema import DatabaseSpec, Table


class SQLWorld:
    """One generated database with its declaration. Shared between threads."""

    def __init__(self, domain: Domain, database: DatabaseSpec):
        self.domain, self.database = domain, database
        self._values: dict[ColumnDecl, tuple[Any, ...]] = {}
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        for table in database.tables:
            self._load(table)

    def values(self, column: ColumnDecl) -> tuple[Any, ...]:
        """Return the distinct non-missing values of a column, sorted."""
        if column not in self._values:
            table = self.database.table(column.table)
            position = [c.name for c in table.columns].index(column.name)
            self._values[column] = tuple(sorted({row[position] for row in table.rows} - {None}))
        return self._values[column]

    def has_missing(self, column: ColumnDecl) -> bool:
        """Return whether a column lacks a value in some row."""
        table = self.database.table(column.table)
        position = [c.name for c in table.columns].index(column.name)
        return any(row[position] is None for row in table.rows)

    def row_count(self, table: str) -> int:
        """Return how many rows a table has."""
        return len(self.database.table(table).rows)

    def query(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement in SQLite's SQL."""
        with self._lock:
            return self._connection.execute(sql).fetchall()

    def _load(self, table: Table) -> None:
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        self._connection.execute(f"CREATE TABLE {table.name} ({columns})")
        rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row] for row in table.rows]
        marks = ", ".join("?" * len(table.columns))
        self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)


@lru_cache(maxsize=256)
def open_world(domain: str, seed: int) -> SQLWorld:
    """Return database number `seed` of `domain`, ready to be asked about."""
    return SQLWorld(load_domain(domain), generate_database(domain, seed))
