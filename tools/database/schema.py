"""A database's content as plain data, used by both engines and identified by its hash."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property

Value = None | bool | int | float | str | Decimal | datetime.date
"""A cell's value in Python."""

COLUMN_TYPES = ("INTEGER", "DOUBLE", "VARCHAR", "DATE", "BOOLEAN")
"""Types with the same meaning in both engines (SQLite stores DATE as ISO text and BOOLEAN as 0/1)."""


@dataclass(frozen=True)
class Column:
    """A named, typed column."""

    name: str
    type: str
    description: str = ""


@dataclass(frozen=True)
class ForeignKey:
    """`column` refers to `target_column` of `target_table`."""

    column: str
    target_table: str
    target_column: str


@dataclass(frozen=True)
class Table:
    """A table with its rows; every row has one value per column, in order."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    primary_key: str | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()

    def column(self, name: str) -> Column:
        """Return the column called `name`, or raise `KeyError`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True)
class DatabaseSpec:
    """A whole database as data: engines build from it, and two equal specs share one database."""

    name: str
    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """Return the table called `name`, or raise `KeyError`."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 hex digest of the whole content."""
        return hashlib.sha256(json.dumps(asdict(self), default=str, ensure_ascii=False).encode()).hexdigest()
