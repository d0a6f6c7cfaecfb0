"""Question families: what one is, how it is registered, and when a drawn question is good enough to be asked.

Gold SQL is written once, in DuckDB's dialect; `to_sqlite` translates the few functions that differ.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agentgym.tasks.sql.domains import ColumnDecl, Link, TableDecl
from agentgym.tasks.sql.world import World

if TYPE_CHECKING:
    from agentgym.tasks.sql.scene import Scene

MAX_ROWS = 40
"""Longest result a question may have: a list that nobody wants to read is no question."""
_SAME = 1e-6

_ARGUMENT = r"([\w.]+(?:\([\w.]+\))?)"
_TRANSLATIONS = (
    (re.compile(rf"\bYEAR\({_ARGUMENT}\)"), r"CAST(STRFTIME('%Y', \1) AS INTEGER)"),
    (re.compile(rf"\bMONTH\({_ARGUMENT}\)"), r"CAST(STRFTIME('%m', \1) AS INTEGER)"),
    (
        re.compile(rf"\bDATE_DIFF\('day', {_ARGUMENT}, {_ARGUMENT}\)"),
        r"CAST(JULIANDAY(\2) - JULIANDAY(\1) AS INTEGER)",
    ),
)


class Shape(StrEnum):
    """What a good result looks like."""

    VALUE = "value"
    """One cell that is neither NULL nor 0."""
    PART = "part"
    """Some rows, but not all rows of the first table: the filter matters."""
    ROWS = "rows"
    """At least two rows (or all rows of a list)."""
    ANY = "any"
    """At least one row."""


class NoFit(Exception):
    """The family cannot be asked here (no such column, too few values); draw again."""


@dataclass(frozen=True)
class Draft:
    """A drawn question whose wording is still to be chosen.

    Args:
        sql: Gold SQL in DuckDB's dialect.
        words: What the phrasings refer to. Tables and columns among them (also unsaid ones) are those the gold uses.
        shape: What its result must look like.
        ordered: Whether the wording demands an order.
        distinct: SQL of one column whose values must all differ, or there is a tie that makes the answer ambiguous.
        steps: Exploratory SQL on the way; `{answer}` stands for the first value that the step before gave.
    """

    sql: str
    words: Mapping[str, Any]
    shape: Shape = Shape.VALUE
    ordered: bool = False
    distinct: str | None = None
    steps: tuple[str, ...] = ()

    @property
    def tables(self) -> list[str]:
        """Tables that the gold uses, in order of mention."""
        named: list[str] = []
        for word in self.words.values():
            if isinstance(word, TableDecl):
                named.append(word.name)
            elif isinstance(word, ColumnDecl):
                named.append(word.table)
            elif isinstance(word, Link):
                named += [word.child.name, word.parent.name]
            elif isinstance(word, Condition):
                named.append(word.column.table)
        return list(dict.fromkeys(named))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the gold uses, in order of mention."""
        named: list[str] = []
        for word in self.words.values():
            if isinstance(word, ColumnDecl):
                named.append(word.name)
            elif isinstance(word, Link):
                named += [word.column.name, word.parent.key.name]
            elif isinstance(word, Condition):
                named.append(word.column.name)
        return list(dict.fromkeys(named))


@dataclass(frozen=True)
class Condition:
    """A filter on one column, in SQL and in words ("whose city is Oslo"). Formats as its words."""

    column: ColumnDecl
    test: str
    """What follows the column in SQL."""
    words: str
    negated: bool = False
    """`NOT column`, for flags."""

    def sql(self, alias: str = "") -> str:
        """Return the condition in SQL, its column qualified with `alias` if there is one."""
        column = f"{alias}.{self.column}" if alias else str(self.column)
        return f"{'NOT ' if self.negated else ''}{column}{self.test}"

    @property
    def one(self) -> str:
        """The words after a singular noun."""
        return self.words.replace("that are ", "that is ").replace("that have ", "that has ")

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Family:
    """A kind of question: draws a `Draft` from a scene and words it in one of several ways."""

    name: str
    level: int
    phrasings: tuple[str, ...]
    draw: Callable[[Scene], Draft] = field(compare=False)


FAMILIES: dict[str, Family] = {}
"""Every family by name, easier ones first."""


def family(level: int, *phrasings: str) -> Callable[[Callable[[Scene], Draft]], Callable[[Scene], Draft]]:
    """Register a function that draws questions, under its own name."""

    def register(draw: Callable[[Scene], Draft]) -> Callable[[Scene], Draft]:
        FAMILIES[draw.__name__] = Family(draw.__name__, level, phrasings, draw)
        return draw

    return register


def to_sqlite(sql: str) -> str:
    """Translate gold SQL from DuckDB's dialect to SQLite's."""
    for pattern, replacement in _TRANSLATIONS:
        sql = pattern.sub(replacement, sql)
    return sql


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if isinstance(value, str | datetime.date):
        return "'" + str(value).replace("'", "''") + "'"
    return str(value)


def is_good(draft: Draft, world: World) -> bool:
    """Whether the draft's gold has one clear, not degenerate result on this database."""
    if draft.distinct is not None and _has_twins(world.query(to_sqlite(draft.distinct))):
        return False
    rows = world.query(to_sqlite(draft.sql))
    if not 0 < len(rows) <= MAX_ROWS and not _is_whole_table(draft, world, len(rows)):
        return False
    if any(cell is None for row in rows for cell in row):
        return False
    match draft.shape:
        case Shape.VALUE:
            return len(rows) == 1 and rows[0][0] != 0
        case Shape.PART:
            return len(rows) < world.row_count(draft.tables[0])
        case Shape.ROWS:
            return len(rows) > 1
        case Shape.ANY:
            return True


def run_steps(draft: Draft, world: World) -> tuple[str, ...]:
    """Return the draft's exploratory SQL (DuckDB's dialect) with every `{answer}` filled in."""
    done: list[str] = []
    answer = ""
    for step in draft.steps:
        done.append(step.replace("{answer}", answer))
        answer = literal(world.query(to_sqlite(done[-1]))[0][0])
    return tuple(done)


def _is_whole_table(draft: Draft, world: World, rows: int) -> bool:
    return draft.shape is Shape.ROWS and rows == world.row_count(draft.tables[0])


def _has_twins(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether two values are the same, or so close that the order of adding floats might swap them."""
    values = sorted(row[0] for row in rows if row[0] is not None)
    if values and isinstance(values[0], str):
        return len(set(values)) < len(values)
    return any(b - a <= _SAME * max(1.0, abs(b)) for a, b in pairwise(values))
