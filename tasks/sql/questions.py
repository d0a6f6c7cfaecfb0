"""Question families: drawn questions, their registration, and the test for degenerate ones.

Families write gold SQL in DuckDB's SQL; `to_sqlite` translates the few functions that differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from agentgym import procedural
from agentgym.procedural import Families
from agentgym.tasks.sql.conditions import Condition, literal
from agentgym.tasks.sql.domains import ColumnDecl, Link, TableDecl
from agentgym.tasks.sql.scene import SQLScene, SQLWorld

MAX_ROWS = 40
"""Maximum number of rows in the result of a question: nobody asks for a list too long to read."""
_SAME = 1e-6
_AVERAGED = re.compile(r"\bAVG\(((?:[^()]|\([^()]*\))*)\)")

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
    """The required form of a question's result."""

    VALUE = "value"
    """One cell that is neither NULL nor 0."""
    PART = "part"
    """Some rows, but not all rows of the first table, so that the filter matters."""
    ROWS = "rows"
    """At least two rows (or all rows of a list)."""
    ANY = "any"
    """At least one row."""


@dataclass(frozen=True)
class SQLDraft:
    """A drawn question without its wording.

    Args:
        sql: Gold SQL in DuckDB's SQL.
        words: The values that the phrasings refer to. It holds every table and column of the gold, mentioned or not.
        shape: The required form of the result.
        ordered: Whether the wording asks for an order.
        distinct: SQL for one column whose values must all differ, because a tie would make the answer ambiguous.
        steps: SQL that explores on the way; `{answer}` stands for the first value that the previous step returned.
    """

    sql: str
    words: Mapping[str, Any]
    shape: Shape = Shape.VALUE
    ordered: bool = False
    distinct: str | None = None
    steps: tuple[str, ...] = ()

    @property
    def tables(self) -> list[str]:
        """Names of the tables that the gold uses, in order of mention."""
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


Family = procedural.Family[SQLScene, SQLDraft]
"""A kind of question."""

FAMILIES: Families[Family] = Families(Family)
"""Every family by name, easier ones first."""


def family(
    level: int, *phrasings: str, plain: tuple[str, ...] = ()
) -> Callable[[Callable[[SQLScene], SQLDraft]], Callable[[SQLScene], SQLDraft]]:
    """Return a decorator that registers a function that draws questions, under the function's name."""
    return FAMILIES.register(level, *phrasings, plain=plain)


def to_sqlite(sql: str) -> str:
    """Translate gold SQL from DuckDB's SQL to SQLite's."""
    for pattern, replacement in _TRANSLATIONS:
        sql = pattern.sub(replacement, sql)
    return sql


def is_good(draft: SQLDraft, world: SQLWorld) -> bool:
    """Return whether the draft's gold has a single clear result on this database that is not degenerate."""
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


def what_counts(draft: SQLDraft, world: SQLWorld) -> str:
    """Return a sentence that leaves out the rows without a value that an average ignores; empty if there are none."""
    averaged = {name for inside in _AVERAGED.findall(draft.sql) for name in re.findall(r"\w+", inside)}
    for column in draft.words.values():
        if isinstance(column, ColumnDecl) and column.name in averaged and world.has_missing(column):
            [table] = [table for table in world.domain.tables if table.name == column.table]
            return f"Leave {table.many} without {column.a} on record out of the average."
    return ""


def run_steps(draft: SQLDraft, world: SQLWorld) -> tuple[str, ...]:
    """Return the draft's steps, in DuckDB's SQL, with every `{answer}` filled in."""
    done: list[str] = []
    answer = ""
    for step in draft.steps:
        done.append(step.replace("{answer}", answer))
        answer = literal(world.query(to_sqlite(done[-1]))[0][0])
    return tuple(done)


def _is_whole_table(draft: SQLDraft, world: SQLWorld, rows: int) -> bool:
    return draft.shape is Shape.ROWS and rows == world.row_count(draft.tables[0])


def _has_twins(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether two values are equal, or so close that adding floats in another order might swap them."""
    values = sorted(row[0] for row in rows if row[0] is not None)
    if values and isinstance(values[0], str):
        return len(set(values)) < len(values)
    return any(b - a <= _SAME * max(1.0, abs(b)) for a, b in pairwise(values))
