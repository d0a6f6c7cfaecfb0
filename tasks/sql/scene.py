"""A generated database that families ask about, and the source of their draws: random tables, columns and filters.

Only task generation uses this; episodes run on the engines in `agentgym.tools.database`.
"""

from __future__ import annotations

import datetime
import sqlite3
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from threading import Lock
from typing import Any

from agentgym import procedural
from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import Condition, literal
from agentgym.tasks.sql.database import generate_database
from agentgym.tasks.sql.domains import NUMBERS, ColumnDecl, Domain, Link, Role, TableDecl, load_domain
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


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Names of the months."""

COMPARISONS = {
    ">": ("above", "greater than", "more than"),
    "<": ("below", "less than", "lower than"),
    ">=": ("at least",),
    "<=": ("at most",),
}
"""Comparison operators and their wordings in questions."""
_OF = ("more than", "less than", "at least", "at most")
"""Wordings that take "of" after a noun: "an age of more than 30"."""
_YEARS = {">": "after {}", "<": "before {}", ">=": "{} or later", "<=": "{} or earlier"}
"""Comparisons of years, in words."""


@dataclass(frozen=True)
class Extreme:
    """One end of an order, in words and in SQL. It formats as its word."""

    word: str
    other: str
    order: str
    function: str

    def of(self, column: ColumnDecl) -> Extreme:
        """Return this end in the words for a column, such as the longest delay instead of the highest."""
        words = column.spec.get("ends", ("highest", "lowest"))
        word, other = words if self.function == "MAX" else reversed(words)
        return replace(self, word=word, other=other)

    def __str__(self) -> str:
        return self.word


HIGH_LOW = (Extreme("highest", "lowest", "DESC", "MAX"), Extreme("lowest", "highest", "ASC", "MIN"))
"""The two ends of an order of numbers."""


class SQLScene(procedural.Scene):
    """One draw of a question on one database. Every method that picks raises `NoFit` if it finds no candidate."""

    def __init__(self, world: SQLWorld, rng: Random):
        super().__init__(rng)
        self.world = world

    def table(self, *roles: Role | tuple[Role, ...]) -> TableDecl:
        """Pick a table that has columns for all `roles`; a tuple of roles means "one of these"."""
        alternatives = [role if isinstance(role, tuple) else (role,) for role in roles]
        return self.choice([t for t in self.world.domain.tables if all(t.of(*roles) for roles in alternatives)])

    def named_table(self, *roles: Role | tuple[Role, ...]) -> TableDecl:
        """Pick a table with named rows."""
        return self.table(Role.NAME, *roles)

    def column(
        self, table: TableDecl, *roles: Role, full: bool = False, besides: Collection[object] = ()
    ) -> ColumnDecl:
        """Pick a column of `table` with one of `roles`; `full` demands one without missing values."""
        columns = [c for c in table.of(*roles) if not (full and c.nullable) and c not in besides]
        return self.choice(columns)

    def number(self, table: TableDecl, full: bool = False, besides: Collection[object] = ()) -> ColumnDecl:
        """Pick a column of numbers that a question may compare and average."""
        return self.column(table, *NUMBERS, full=full, besides=besides)

    def category(self, table: TableDecl, full: bool = False, besides: Collection[object] = ()) -> ColumnDecl:
        """Pick a column with few different values."""
        return self.column(table, Role.CATEGORY, full=full, besides=besides)

    def value(self, column: ColumnDecl, besides: Collection[object] = ()) -> Any:
        """Pick a value that occurs in `column`."""
        return self.choice([v for v in self.world.values(column) if v not in besides])

    def two_values(self, column: ColumnDecl) -> list[Any]:
        """Pick two values that occur in `column`, sorted, so that every pair has one form."""
        values = self.world.values(column)
        if len(values) < 2:
            raise NoFit
        return sorted(self.rng.sample(values, 2))

    def threshold(self, column: ColumnDecl) -> int | float:
        """Pick a round number that splits the values of `column` into two parts."""
        values = self.world.values(column)
        if len(values) < 4:
            raise NoFit
        edge = len(values) // 6
        return short_number(self.rng.choice(values[edge : len(values) - edge]), column.role is Role.YEAR)

    def day(self, column: ColumnDecl) -> datetime.date:
        """Pick a date that splits the values of `column` into two parts: a value, or the first day of its month."""
        values = self.world.values(column)
        if len(values) < 4:
            raise NoFit
        edge = len(values) // 6
        day = self.rng.choice(values[edge : len(values) - edge])
        return day if self.rng.random() < 0.5 else day.replace(day=1)

    def link(self, named: bool = False, only: bool = False, full: bool = False) -> Link:
        """Pick a foreign key.

        Args:
            named: Demand parents with names.
            only: Demand the only key between its two tables, so that "has" is unambiguous.
            full: Demand that every child has a parent.
        """
        links = self.world.domain.only_links if only else self.world.domain.links
        fits = [k for k in links if not (named and not k.parent.of(Role.NAME)) and not (full and k.column.nullable)]
        return self.choice(fits)

    def two_links(self) -> tuple[Link, Link]:
        """Pick two foreign keys: the second starts where the first leads to, and leads to rows with names."""
        lower = self.link()
        return lower, self.choice(
            [k for k in self.world.domain.links if k.child == lower.parent and k.parent.of(Role.NAME)]
        )

    def comparison(self) -> tuple[str, str]:
        """Pick a comparison operator and its wording."""
        operator = self.rng.choice(tuple(COMPARISONS))
        return operator, self.rng.choice(COMPARISONS[operator])

    def condition(self, table: TableDecl, besides: Collection[object] = ()) -> Condition:
        """Pick a filter on a column of `table` that is not among `besides`."""
        roles = (Role.CATEGORY, Role.CATEGORY, *NUMBERS, Role.DATE, Role.FLAG, Role.YEAR)
        column = self.choice([c for role in roles for c in table.of(role) if c not in besides])
        match column.role:
            case Role.CATEGORY:
                return self.equals(column)
            case Role.DATE:
                return self.dated(column)
            case Role.FLAG:
                return self.flagged(column, table.who, self.rng.random() < 0.5)
            case _:
                return self.compared(column)

    def flagged(self, column: ColumnDecl, who: str, is_set: bool) -> Condition:
        """Return the condition that a flag is set, or that it is not."""
        clause = column.spec["said" if is_set else "denied"].removeprefix("that ")
        singular = column.spec.get("said_one" if is_set else "denied_one", "").removeprefix("that ")
        singular = singular or clause.replace("are ", "is ", 1).replace("have ", "has ", 1)
        return Condition(column, "", f"{who} {clause}", f"{who} {singular}", negated=not is_set)

    def two_conditions(self, table: TableDecl, besides: Collection[object] = ()) -> list[Condition]:
        """Pick filters on two columns of `table`, in the order of the columns, so that every pair has one form."""
        first = self.condition(table, besides)
        second = self.condition(table, (*besides, first.column))
        return sorted((first, second), key=lambda condition: table.columns.index(condition.column))

    def equals(self, column: ColumnDecl) -> Condition:
        """Pick a value that `column` must equal."""
        value = self.value(column)
        clause = f"whose {column.label} is {value}"
        return Condition(column, f" = {literal(value)}", clause, phrase=self.with_value(column, value))

    def with_value(self, column: ColumnDecl, value: Any) -> str:
        """Return a value of `column` as it follows a noun: `from Peru`, `with the status "paid"`."""
        brief = column.spec.get("brief", f'with the {column.label} "{{}}"')
        return brief.format(value)

    def compared(self, column: ColumnDecl) -> Condition:
        """Pick a number to compare `column` with."""
        operator, words = self.comparison()
        value = self.threshold(column)
        if column.role is Role.YEAR:
            words = _YEARS[operator].format(value)
            return Condition(column, f" {operator} {value}", f"whose {column.label} is {words}")
        phrase = f"with {column.a} {'of ' if words in _OF else ''}{words} {value}"
        return Condition(column, f" {operator} {value}", f"whose {column.label} is {words} {value}", phrase=phrase)

    def dated(self, column: ColumnDecl) -> Condition:
        """Pick a day that `column` must lie before or after."""
        operator, words = self.choice(((">", "after"), ("<", "before"), (">=", "on or after"), ("<=", "on or before")))
        day = self.day(column)
        phrase = f"with {column.a} {words} {day}"
        return Condition(column, f" {operator} {literal(day)}", f"whose {column.label} is {words} {day}", phrase=phrase)


def short_number(value: int | float, whole: bool = False) -> int | float:
    """Round to two significant digits unless `whole`; a float without a fraction becomes an int."""
    if not whole:
        value = float(f"{value:.2g}")
    return int(value) if value == int(value) else value
