"""Filters on one column, in SQL and in words."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from agentgym.tasks.sql.domains import ColumnDecl


@dataclass(frozen=True)
class Condition:
    """A filter on one column, in SQL and in words ("whose city is Oslo"). It formats as its words."""

    column: ColumnDecl
    test: str
    """The part of the SQL that follows the column."""
    words: str
    negated: bool = False
    """Whether the SQL is `NOT column`, for flags."""

    def sql(self, alias: str = "") -> str:
        """Return the condition in SQL; `alias` qualifies its column."""
        column = f"{alias}.{self.column}" if alias else str(self.column)
        return f"{'NOT ' if self.negated else ''}{column}{self.test}"

    @property
    def one(self) -> str:
        """The words as they follow a singular noun."""
        return self.words.replace("that are ", "that is ").replace("that have ", "that has ")

    def __str__(self) -> str:
        return self.words


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if isinstance(value, str | datetime.date):
        return "'" + str(value).replace("'", "''") + "'"
    return str(value)
