"""Translates SQLite queries into DuckDB's SQL, and makes explicit what SQLite leaves implicit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

if TYPE_CHECKING:
    from sqlglot.expressions import Expr  # a name that older releases lack


def to_duckdb(sql: str, names: frozenset[str]) -> str:
    """Return a SQLite query in DuckDB's SQL.

    Args:
        sql: The query.
        names: The names of all columns and tables, in lower case. SQLite treats other double-quoted text as a
            string.

    Raises:
        SqlglotError: The query cannot be read.
    """
    tree = sqlglot.parse_one(sql, read="sqlite")
    known_names = names | {
        alias.alias.lower() for alias in tree.find_all(exp.Alias, exp.TableAlias) if alias.name or alias.this
    }
    for column in list(tree.find_all(exp.Column)):
        if column.this.args.get("quoted") and not column.table and column.name.lower() not in known_names:
            column.replace(exp.Literal.string(column.name))
    for like in list(tree.find_all(exp.Like)):  # SQLite's LIKE ignores case
        like.replace(exp.ILike(**like.args))
    for select in tree.find_all(exp.Select):
        _spell_out_bare_columns(select)
    return tree.sql(dialect="duckdb", identify=True)


def _spell_out_bare_columns(select: exp.Select) -> None:
    """Make the choice of values of ungrouped columns explicit, which SQLite does not require.

    It comes from the row with the greatest (or least) value if the query asks for exactly one such value, else from any
    row.
    """
    places = [*select.expressions, *(select.args[key] for key in ("having", "order") if select.args.get(key))]
    aggregates = [call for place in places for call in place.find_all(exp.AggFunc) if _belongs(call, select)]
    grouping = _Grouping.of(select)
    if not aggregates and not grouping.parts:
        return
    extremes = {call.sql(): call for call in aggregates if isinstance(call, exp.Max | exp.Min)}
    extreme = next(iter(extremes.values())) if len(extremes) == 1 else None
    for place in places:
        if not grouping.holds_projection(place):
            for column in list(place.find_all(exp.Column)):
                if _belongs(column, select) and grouping.is_bare(column, place):
                    _replace(place, column, _any_value(column, extreme), select)


@dataclass(frozen=True)
class _Grouping:
    """The grouping of a SELECT."""

    select: exp.Select
    parts: tuple[Expr, ...]

    @classmethod
    def of(cls, select: exp.Select) -> _Grouping:
        """Return the grouping of a SELECT, which may have none."""
        group = select.args.get("group")
        return cls(select, tuple(group.expressions) if group is not None else ())

    def holds_projection(self, place: Expr) -> bool:
        """Return whether the query groups by a column of the result, by its name or number."""
        numbers = [number for number, part in enumerate(self.select.expressions, start=1) if part is place]
        names = {part.name.lower() for part in self.parts}
        is_named = isinstance(place, exp.Alias) and place.alias.lower() in names
        return is_named or any(str(number) in names for number in numbers)

    def is_bare(self, column: exp.Column, place: Expr) -> bool:
        """Return whether a column may have several values in a group, and the query does not choose one."""
        if isinstance(column.this, exp.Star) or isinstance(column.find_ancestor(exp.AggFunc, exp.Select), exp.AggFunc):
            return False
        if place not in self.select.expressions and not column.table and column.name.lower() in self._aliases:
            return False
        return not any(self._same(column, part) for part in self.parts)

    @property
    def _aliases(self) -> set[str]:
        return {part.alias.lower() for part in self.select.expressions if isinstance(part, exp.Alias)}

    @staticmethod
    def _same(column: exp.Column, part: Expr) -> bool:
        if not isinstance(part, exp.Column) or (column.table and part.table):
            return column.sql().lower() == part.sql().lower()
        return column.name.lower() == part.name.lower()


def _belongs(node: Expr, select: exp.Select) -> bool:
    """Return whether a part of a query belongs to this SELECT, and not to a nested one."""
    return node.find_ancestor(exp.Select) is select


def _any_value(column: exp.Column, extreme: Expr | None) -> Expr:
    if extreme is None:
        return exp.AnyValue(this=column.copy())
    name = "ARG_MAX" if isinstance(extreme, exp.Max) else "ARG_MIN"
    return exp.Anonymous(this=name, expressions=[column.copy(), extreme.this.copy()])


def _replace(place: Expr, column: exp.Column, value: Expr, select: exp.Select) -> None:
    if place is column:
        select.set("expressions", [value.as_(column.name) if part is column else part for part in select.expressions])
    else:
        column.replace(value)
