"""The tables and columns that a query reads, with aliases, common table expressions and sub-queries resolved.

Only names that the query reads count. Strings, comments, aliases, tables whose columns are not used, sub-queries whose
result is not used and unreferenced common table expressions do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, build_scope

from agentgym.tools.database.base import Database

Reference = tuple[str, str]
"""`("table", name)` or `("column", name)`, in lower case."""

_ALIASED = ("order", "group", "having", "qualify")
"""Clauses that resolve a name to an alias before a column."""


class Schema:
    """The columns of each table, in lower case. Compared by identity, which makes it a cheap cache key."""

    def __init__(self, tables: Mapping[str, Iterable[str]]):
        self._columns = {table.lower(): frozenset(map(str.lower, names)) for table, names in tables.items()}

    @classmethod
    def of(cls, database: Database) -> Schema:
        """Read the schema of a database."""
        return cls({table: [c.name for c in database.describe(table, 0).columns] for table in database.tables()})

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; none if there is no such table."""
        return self._columns.get(table, frozenset())

    def __contains__(self, table: str) -> bool:
        return table in self._columns


@lru_cache(maxsize=2048)
def references(sql: str, engine: str, schema: Schema) -> frozenset[Reference]:
    """Return the tables and columns that `sql` reads; an empty set if it cannot be parsed."""
    try:
        query = sqlglot.parse_one(sql, dialect=engine)
        for identifier in query.find_all(exp.Identifier):
            identifier.set("this", identifier.this.lower())
        root = build_scope(query.unnest())
        if root is None:
            return frozenset()
        reader = _Reader(schema)
        reader.read(root, None)
    except (SqlglotError, RecursionError):
        return frozenset()
    return frozenset(reader.found)


class _Reader:
    """Walks from the outermost query to the sub-queries whose results it uses."""

    def __init__(self, schema: Schema):
        self.found: set[Reference] = set()
        self._schema = schema
        self._read: set[tuple[int, frozenset[str] | None, bool]] = set()

    def read(self, scope: Scope, needed: frozenset[str] | None, counts_rows: bool = False) -> None:
        """Record what a query reads.

        Args:
            scope: The query.
            needed: The columns of its result that are used; `None` for all of them.
            counts_rows: Whether the number of its rows is used.
        """
        key = (id(scope), needed, counts_rows)
        if key in self._read:
            return
        self._read.add(key)
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            for part in scope.set_operation_scopes:
                self.read(part, None)
        elif isinstance(query, exp.Select):
            self._read_select(scope, query, needed, counts_rows)

    def _read_select(self, scope: Scope, query: exp.Select, needed: frozenset[str] | None, counts_rows: bool) -> None:
        inner = {id(below.expression): below for below in scope.subquery_scopes}
        requested: dict[str, set[str]] = {}
        """The requested columns of each sub-query in FROM."""
        for node, is_aliased in _used(query, needed):
            for part in _nodes(node, inner):
                if isinstance(part, exp.Star):
                    self._star(scope, part, requested, None if query.args.get("distinct") else needed)
                elif isinstance(part, exp.Column):
                    aliases = _aliases(query) if is_aliased else ()
                    if part.table or part.name not in aliases:
                        self._column(scope, part.table, part.name, requested)
                elif (below := inner.get(id(part))) is not None:
                    self.read(below, None)
                counts_rows |= isinstance(part, exp.AggFunc)
        for join in query.args.get("joins") or ():
            self._joined(scope, join, requested)
        for name, (_, source) in scope.selected_sources.items():
            if isinstance(source, exp.Table):
                if counts_rows:
                    self._table(source)
            elif isinstance(source, Scope):
                columns = requested.get(name, set())
                self.read(source, None if "*" in columns else _inner_names(source, columns), counts_rows)

    def _star(
        self, scope: Scope, star: exp.Star, requested: dict[str, set[str]], needed: frozenset[str] | None
    ) -> None:
        """Record the needed columns of all sources, or of the named one. COUNT(*) needs none."""
        if isinstance(star.parent, exp.Count):
            return
        only = star.parent.table if isinstance(star.parent, exp.Column) else ""
        if needed is not None:
            for column in needed:
                self._column(scope, only, column, requested)
            return
        for name, (_, source) in scope.selected_sources.items():
            if only and name != only:
                continue
            if isinstance(source, exp.Table):
                self._table(source)
                self.found |= {("column", column) for column in self._schema.columns(source.name)}
            else:
                requested.setdefault(name, set()).add("*")

    def _column(self, scope: Scope, table: str, column: str, requested: dict[str, set[str]]) -> None:
        """Record a column at its origin: a source of this query or of an enclosing one."""
        if column == "*":
            return
        place: Scope | None = scope
        while place is not None:
            for name, (_, source) in place.selected_sources.items():
                if table and name != table:
                    continue
                if isinstance(source, exp.Table):
                    if column in self._schema.columns(source.name):
                        self._table(source)
                        self.found.add(("column", column))
                        return
                elif isinstance(source, Scope) and _returns(source, column):
                    if place is scope:
                        requested.setdefault(name, set()).add(column)
                    else:
                        self.read(source, _inner_names(source, [column]))
                    return
            place = place.parent

    def _joined(self, scope: Scope, join: exp.Join, requested: dict[str, set[str]]) -> None:
        """Record the columns that USING and NATURAL compare."""
        names = {column.name for column in join.args.get("using") or ()}
        sources = [source for _, source in scope.selected_sources.values() if isinstance(source, exp.Table)]
        if str(join.args.get("method") or "").upper() == "NATURAL" and len(sources) > 1:
            names |= frozenset.intersection(*(self._schema.columns(source.name) for source in sources))
        for name in names:
            for alias in scope.selected_sources:
                self._column(scope, alias, name, requested)

    def _table(self, table: exp.Table) -> None:
        if table.name in self._schema:
            self.found.add(("table", table.name))


def _used(query: exp.Select, needed: frozenset[str] | None) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the parts of a query that decide its rows and needed columns, and whether aliases take precedence there."""
    for key, value in query.args.items():
        if key in ("with_", "from_"):
            continue
        parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]
        if key == "joins":
            parts = [condition for join in parts if (condition := join.args.get("on")) is not None]
        elif key == "expressions" and needed is not None and not query.args.get("distinct"):
            parts = [part for part in parts if part.is_star or part.alias_or_name in needed]
        for part in parts:
            yield part, key in _ALIASED


def _nodes(start: exp.Expr, inner: Mapping[int, Scope]) -> Iterator[exp.Expr]:
    """Yield the nodes of a part of a query, including its sub-queries but not their contents."""
    yield from start.walk(prune=lambda node: id(node) in inner)


def _aliases(query: exp.Select) -> frozenset[str]:
    """Return the aliases of the selected expressions, except those that repeat the name of a column in them."""
    named = [item for item in query.expressions if isinstance(item, exp.Alias)]
    return frozenset(item.alias for item in named if item.alias not in [c.name for c in item.find_all(exp.Column)])


def _returns(source: Scope, column: str) -> bool:
    """Whether the result of a query has a column, judging by the query alone."""
    query = source.expression
    return not isinstance(query, exp.Query) or query.is_star or column in (source.outer_columns or query.named_selects)


def _inner_names(source: Scope, columns: Iterable[str]) -> frozenset[str]:
    """Return the names of columns inside a sub-query whose alias renames them."""
    if not source.outer_columns or not isinstance(source.expression, exp.Query):
        return frozenset(columns)
    inside = dict(zip(source.outer_columns, source.expression.named_selects, strict=False))
    return frozenset(inside.get(column, column) for column in columns)


def linking(predicted: str, gold: str, engine: str, schema: Schema) -> float:
    """Return the Jaccard index of the tables and columns that two queries read; 0 if neither reads any."""
    if predicted == gold:
        return 1.0  # Common for trained policies, and parsing takes longer than running the query.
    mine, theirs = references(predicted, engine, schema), references(gold, engine, schema)
    union = mine | theirs
    return len(mine & theirs) / len(union) if union else 0.0
