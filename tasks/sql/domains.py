"""Declarations of the SQL domains: tables, columns, and the role that each column plays in questions.

Domains are YAML files in `data/`, read once. `values.py` draws the values of cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from agentgym.base.choices import some_of
from agentgym.tasks.data_files import read_data

HELD_OUT = ("bike_share", "satellites", "wines", "zoo")
"""Domains that appear in the split `test_unseen` and in no other."""


class Role(StrEnum):
    """The role of a column in questions."""

    KEY = "key"
    """Integer primary key."""
    REF = "ref"
    """Foreign key."""
    NAME = "name"
    """Unique text that names a row."""
    CATEGORY = "category"
    """Text with few different values."""
    COUNT = "count"
    """Integer that may be summed."""
    AMOUNT = "amount"
    """Fractional number that may be summed."""
    MEASURE = "measure"
    """Number whose sum is meaningless (age, rating)."""
    YEAR = "year"
    """Calendar year: may be compared, not averaged."""
    DATE = "date"
    FLAG = "flag"
    TEXT = "text"
    """Text whose content does not matter, only its presence."""


NUMBERS = (Role.COUNT, Role.AMOUNT, Role.MEASURE)
"""Roles that may be compared and averaged."""
ADDITIVE = (Role.COUNT, Role.AMOUNT)
"""Roles that may be summed."""


def plural_of(words: str) -> str:
    """Return the regular English plural of a noun phrase."""
    if words.endswith("y") and words[-2:-1] not in "aeiou":
        return words[:-1] + "ies"
    return words + ("es" if words.endswith(("s", "x", "ch", "sh")) else "s")


def with_article(words: str) -> str:
    """Return a noun phrase with its indefinite article."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


@dataclass(frozen=True)
class ColumnDecl:
    """A declared column. Formats as its SQL name."""

    table: str
    name: str
    role: Role
    label: str
    """The name of the column in questions."""
    plural: str
    type: str
    nullable: bool
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The declared rule that draws its values."""

    @cached_property
    def a(self) -> str:
        """The label with its indefinite article, if it takes one."""
        return self.label if self.spec.get("mass") else with_article(self.label)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TableDecl:
    """A declared table. Formats as its SQL name."""

    name: str
    one: str
    many: str
    rows: tuple[int, int]
    columns: tuple[ColumnDecl, ...]
    people: bool = False
    """Whether its rows are people, which decides the pronouns."""

    def __str__(self) -> str:
        return self.name

    @cached_property
    def a(self) -> str:
        """The noun with its indefinite article."""
        return with_article(self.one)

    @property
    def who(self) -> str:
        """The relative pronoun for its rows."""
        return "who" if self.people else "that"

    @property
    def its(self) -> str:
        """The possessive pronoun for one row."""
        return "their" if self.people else "its"

    @property
    def it(self) -> str:
        """The pronoun for one row, as an object."""
        return "them" if self.people else "it"

    @cached_property
    def identity(self) -> ColumnDecl:
        """The column that answers "which one": the name if there is one, else the key."""
        return next((c for c in self.columns if c.role is Role.NAME), self.key)

    @cached_property
    def key(self) -> ColumnDecl:
        """The primary key."""
        return next(c for c in self.columns if c.role is Role.KEY)

    def of(self, *roles: Role) -> tuple[ColumnDecl, ...]:
        """Return the columns that play one of `roles`."""
        return tuple(c for c in self.columns if c.role in roles)


@dataclass(frozen=True)
class Link:
    """A foreign key: every `child` has at most one `parent`, which questions call `label`."""

    child: TableDecl
    column: ColumnDecl
    parent: TableDecl

    @property
    def label(self) -> str:
        """The name of the parent in questions, seen from the child."""
        return self.column.label

    @property
    def a(self) -> str:
        """The label with its indefinite article."""
        return with_article(self.label)

    @property
    def via(self) -> str:
        """The preposition that leads from the child to the parent: "towns in a nation"."""
        return self.column.spec.get("via", "with")

    @property
    def join(self) -> str:
        """Both tables joined, in SQL."""
        return f"{self.child} JOIN {self.parent} ON {self.on}"

    @property
    def on(self) -> str:
        """The join condition, in SQL."""
        return f"{self.child}.{self.column} = {self.parent}.{self.parent.key}"


@dataclass(frozen=True)
class Domain:
    """A small world: one to five related tables, parents before children."""

    name: str
    tables: tuple[TableDecl, ...]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All foreign keys."""
        by_name = {table.name: table for table in self.tables}
        return tuple(Link(t, c, by_name[c.spec["to"]]) for t in self.tables for c in t.of(Role.REF))

    @cached_property
    def only_links(self) -> tuple[Link, ...]:
        """Foreign keys that are the only one between their two tables, so that "has" is unambiguous."""
        pairs = [(link.child.name, link.parent.name) for link in self.links]
        return tuple(link for link, pair in zip(self.links, pairs, strict=True) if pairs.count(pair) == 1)


@cache
def domain_names() -> tuple[str, ...]:
    """Return the names of all domains, held-out ones included, sorted."""
    file_names = (entry.name for entry in files("agentgym.tasks.sql").joinpath("data").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in file_names if name.endswith(".yaml") and name[0] != "_"))


@cache
def load_domain(name: str) -> Domain:
    """Return the domain called `name`. Raises `UsageError`, listing the existing domains, for an unknown name."""
    some_of("domain", name, domain_names())
    declared = read_data("sql", name)
    return Domain(name, tuple(_table(table, spec) for table, spec in declared.items()))


def _table(name: str, spec: Mapping[str, Any]) -> TableDecl:
    words = name.replace("_", " ")
    columns = tuple(_column(name, column, values) for column, values in spec["columns"].items())
    low, high = spec.get("rows", (20, 60))
    return TableDecl(name, spec["one"], spec.get("many", words), (low, high), columns, spec.get("people", False))


def _column(table: str, name: str, spec: Mapping[str, Any]) -> ColumnDecl:
    role = Role(spec["role"])
    label = spec.get("label", name.replace("_", " "))
    plural = spec.get("plural", plural_of(label))
    return ColumnDecl(table, name, role, label, plural, _type(role, spec), spec.get("missing", 0) > 0, spec)


def _type(role: Role, spec: Mapping[str, Any]) -> str:
    match role:
        case Role.KEY | Role.REF | Role.COUNT | Role.YEAR:
            return "INTEGER"
        case Role.AMOUNT:
            return "DOUBLE"
        case Role.MEASURE:
            return "DOUBLE" if spec.get("decimals") else "INTEGER"
        case Role.DATE:
            return "DATE"
        case Role.FLAG:
            return "BOOLEAN"
        case _:
            return "VARCHAR"
