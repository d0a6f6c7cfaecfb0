"""Finds the ties of a gold query: rows that its ORDER BY does not put in order, and that its LIMIT cuts at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from agentgym.core.answers.written import FEWEST_DECIMALS
from agentgym.envs.sql.grading import match
from agentgym.envs.sql.swaps import Ties, groups_of, match_with_ties
from agentgym.tools.database import QueryError, QueryResult

Run = Callable[[str], QueryResult]
"""Runs a query on the database of the gold."""

_MAX_MEMBERS = 20
"""Number of tied rows of an inner query to try."""


def match_up_to_ties(
    predicted: QueryResult,
    gold: QueryResult,
    sql: str,
    engine: str,
    ordered: bool,
    run: Run,
    fewest: int | None = FEWEST_DECIMALS,
) -> bool:
    """Whether `predicted` is a result that the gold query allows.

    Args:
        predicted: Result of the policy's query.
        gold: Result of the gold query.
        sql: The gold query.
        engine: The database engine, `"duckdb"` or `"sqlite"`.
        ordered: Whether the question asks for an order of the rows.
        run: Runs a query on the same database.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if match_with_ties(predicted, gold, ties_of(sql, engine), ordered, run, fewest):
        return True
    return any(match(predicted, run(other), ordered, fewest).equal for other in other_golds(sql, engine, run))


def parsed(sql: str, engine: str) -> exp.Query | None:
    """Return a query's syntax tree, or `None` if it cannot be parsed."""
    try:
        tree = sqlglot.parse_one(sql, dialect=engine)
    except (SqlglotError, RecursionError):
        return None
    return tree if isinstance(tree, exp.Query) else None


@lru_cache(maxsize=512)
def ties_of(sql: str, engine: str) -> Ties | None:
    """Return the ties of a query; `None` if it has neither ORDER BY nor LIMIT, or cannot be rewritten."""
    query = parsed(sql, engine)
    return None if query is None else _ties(query, engine)


def cut_ties(sql: str, engine: str, run: Run) -> list[str]:
    """Return the queries, outer or inner, whose LIMIT cuts rows that tie. Correlated queries are left out."""
    root = parsed(sql, engine)
    if root is None:
        return []
    return [query.sql(dialect=engine) for query in _limited(root) if _is_cut(root, query, engine, run)]


@lru_cache(maxsize=512)
def _inner_limits(sql: str, engine: str) -> bool:
    root = parsed(sql, engine)
    return root is not None and any(query is not root for query in _limited(root))


def other_golds(sql: str, engine: str, run: Run) -> list[str]:
    """Return the gold query with other tied rows in place of the one that an inner LIMIT 1 chose."""
    if not _inner_limits(sql, engine) or (root := parsed(sql, engine)) is None:
        return []
    others: list[str] = []
    for place, query in enumerate(_limited(root)):
        if query is root or (ties := _ties(query, engine, root)) is None or ties.limit != 1:
            continue
        first = 0
        for group in groups_of(ties, run) or ():
            if group.is_cut:
                offsets = range(first, first + min(len(group.rows), _MAX_MEMBERS))
                others += [_with_offset(root, place, offset).sql(dialect=engine) for offset in offsets]
            first += len(group.rows)
    return [other for other in dict.fromkeys(others) if _runs(other, run)]


def _with_offset(root: exp.Query, place: int, offset: int) -> exp.Query:
    """Return a copy of a query with another OFFSET for one of the queries that have a LIMIT."""
    copy = root.copy()
    list(_limited(copy))[place].set("offset", exp.Offset(expression=exp.Literal.number(offset)))
    return copy


def _runs(sql: str, run: Run) -> bool:
    try:
        run(sql)
    except QueryError:
        return False
    return True


def _limited(root: exp.Query) -> Iterator[exp.Query]:
    """Yield the queries with a LIMIT, in the order of the tree."""
    yield from (query for query in root.find_all(exp.Query) if query.args.get("limit") is not None)


def _is_cut(root: exp.Query, query: exp.Query, engine: str, run: Run) -> bool:
    ties = _ties(query, engine, root)
    groups = None if ties is None else groups_of(ties, run)
    return any(group.is_cut and len(set(group.rows)) > 1 for group in groups or ())


def _ties(query: exp.Query, engine: str, root: exp.Query | None = None) -> Ties | None:
    """Return the ties of a query; an inner one gets the common table expressions of `root`."""
    order, limit = query.args.get("order"), _number(query, "limit")
    if (order is None and limit is None) or (query.args.get("limit") is not None and limit is None):
        return None
    keyed = query.copy()
    for clause in ("limit", "offset"):
        keyed.set(clause, None)
    if root is not None and root is not query and root.args.get("with_") and not keyed.args.get("with_"):
        keyed.set("with_", root.args["with_"].copy())
    terms = [] if order is None else [term.this for term in order.expressions]
    keys = [_output(query, term) for term in terms]
    added = [term.copy() for term, key in zip(terms, keys, strict=True) if key is None]
    if added and (not isinstance(keyed, exp.Select) or query.args.get("distinct")):
        return None
    for expression in added:
        keyed = keyed.select(expression)
    from_end = iter(range(-len(added), 0))
    places = tuple(next(from_end) if key is None else key for key in keys)
    return Ties(keyed.sql(dialect=engine), places, _number(query, "offset") or 0, limit)


def _number(query: exp.Query, clause: str) -> int | None:
    """Return the literal number of LIMIT or OFFSET."""
    part = query.args.get(clause)
    return _whole(part.args.get("expression")) if part is not None else None


def _whole(node: exp.Expr | None) -> int | None:
    """Return the value of a literal whole number."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal():
        return int(node.this)
    return None


def _output(query: exp.Query, key: exp.Expr) -> int | None:
    """Return the position of the column of the result that a sort key is, or `None`."""
    if query.is_star:
        return None
    if (number := _whole(key)) is not None:
        return number - 1 if 0 < number <= len(query.selects) else None
    names = [select.alias_or_name.lower() for select in query.selects]
    if isinstance(key, exp.Column) and not key.table and key.name.lower() in names:
        return names.index(key.name.lower())
    return next((i for i, select in enumerate(query.selects) if select.unalias() == key), None)
