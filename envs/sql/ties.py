"""Accepts rows of an ordered result in another order if they tie in the gold query's sort keys.

If LIMIT cuts a tie off, only the rows that the gold query returned are right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from agentgym.core.answers.written import FEWEST_DECIMALS
from agentgym.envs.sql.swaps import match_with_swaps
from agentgym.tools.database import QueryResult


def match_up_to_ties(
    predicted: QueryResult,
    gold: QueryResult,
    sql: str,
    engine: str,
    run: Callable[[str], QueryResult],
    fewest: int | None = FEWEST_DECIMALS,
) -> bool:
    """Whether `predicted` has the gold's rows in an order that the gold's ORDER BY allows.

    Args:
        predicted: Result of the policy's query.
        gold: Result of the gold query.
        sql: The gold query.
        engine: The database engine, `"duckdb"` or `"sqlite"`.
        run: Runs a query on the same database.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    return match_with_swaps(predicted, gold, with_sort_keys(sql, engine), run, fewest)


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
    outputs = {str(number): item.unalias() for number, item in enumerate(query.expressions, start=1)}
    outputs |= {item.alias.lower(): item.this for item in query.expressions if isinstance(item, exp.Alias)}
    for term in order.expressions:
        key = term.this
        refers = isinstance(key, exp.Literal) or (isinstance(key, exp.Column) and not key.table)
        query = query.select((outputs.get(key.name.lower(), key) if refers else key).copy())
    return query.sql(dialect=engine)
