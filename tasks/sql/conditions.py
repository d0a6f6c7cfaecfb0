"""Filters on one column, in SQL and in words."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from agentgym.tasks.sql.domains import ColumnDecl


@dataclass(frozen=True)
class Condition:
    """A filter on one column, in SQL and in words ("whose city is Oslo"). `str` gives its words after a plural."""

    column: ColumnDecl
    test: str
    """The part of the SQL that follows the column."""
    words: str
    """A clause that follows a plural noun: "whose age is above 30", "who are remote"."""
    singular: str = ""
    """The clause after a singular noun, where it differs."""
    phrase: str = ""
    """A shorter form that no "and" may follow: "with an age above 30"."""
    negated: bool = False
    """Whether the SQL is `NOT column`, for flags."""

    def sql(self, alias: str = "") -> str:
        """Return the condition in SQL; `alias` qualifies its column."""
        column = f"{alias}.{self.column}" if alias else str(self.column)
        return f"{'NOT ' if self.negated else ''}{column}{self.test}"

    @property
    def one(self) -> str:
        """The words as they follow a singular noun."""
        return self.singular or self.words

    @property
    def brief(self) -> str:
        """The short form, after a plural noun."""
        return self.phrase or self.words

    @property
    def brief_one(self) -> str:
        """The short form, after a singular noun."""
        return self.phrase or self.one

    def __str__(self) -> str:
        return self.words


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if isinstance(value, str | datetime.date):
        return "'" + str(value).replace("'", "''") + "'"
    return str(value)
