"""Finds rows of an ordered gold result that may be swapped because they tie in the sort keys.

Needed only when a submitted result has the gold's rows in another order. A tie cut off by LIMIT stays as the gold
query resolved it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from agentgym.envs.sql.cells import canonical
from agentgym.envs.sql.grading import match
from agentgym.tools.database import QueryError, QueryResult


def match_up_to_ties(
    predicted: QueryResult, gold: QueryResult, sql: str, engine: str, run: Callable[[str], QueryResult]
) -> bool:
    """Whether `predicted` has the gold's rows in an order that the gold's ORDER BY allows.

    Args:
        predicted: Result of the policy's query.
        gold: Result of the gold query.
        sql: The gold query.
        engine: The database engine, `"duckdb"` or `"sqlite"`.
        run: Runs a query on the same database.
    """
    if len(predicted.rows) != len(gold.rows) or not match(predicted, gold):
        return False
    groups = _groups(gold, with_sort_keys(sql, engine), run)
    return groups is not None and match(_marked(predicted, groups), _marked(gold, groups))


@lru_cache(maxsize=512)
def with_sort_keys(sql: str, engine: str) -> str | None:
    """Return `sql` with its sort keys as further columns, or `None` if it cannot be rewritten."""
    try:
        query = sqlglot.parse_one(sql, dialect=engine)
    except (SqlglotError, RecursionError):
        return None
    order = query.args.get("order")
    if not isinstance(query, exp.Select) or order is None or query.args.get("distinct"):
        return None
    shown = {str(number): item.unalias() for number, item in enumerate(query.expressions, start=1)}
    shown |= {item.alias.lower(): item.this for item in query.expressions if isinstance(item, exp.Alias)}
    for term in order.expressions:
        key = term.this
        refers = isinstance(key, exp.Literal) or (isinstance(key, exp.Column) and not key.table)
        query = query.select((shown.get(key.name.lower(), key) if refers else key).copy())
    return query.sql(dialect=engine)


def _groups(gold: QueryResult, keyed_sql: str | None, run: Callable[[str], QueryResult]) -> list[int] | None:
    """Number the runs of gold rows that tie; `None` if the keyed query returns other rows."""
    if keyed_sql is None:
        return None
    try:
        keyed = run(keyed_sql)
    except QueryError:
        return None
    width = len(gold.columns)
    if len(keyed.columns) == width or tuple(row[:width] for row in keyed.rows) != gold.rows:
        return None
    keys = [tuple(map(canonical, row[width:])) for row in keyed.rows]
    groups: list[int] = []
    for i, key in enumerate(keys):
        groups.append(0 if i == 0 else groups[-1] + (key != keys[i - 1]))
    return groups


def _marked(result: QueryResult, groups: Sequence[int]) -> QueryResult:
    """Return `result` with the tie group of each row as an extra column that matches no other."""
    rows = tuple((f"\0{group}", *row) for group, row in zip(groups, result.rows, strict=True))
    return replace(result, columns=("", *result.columns), types=("", *result.types), rows=rows)
