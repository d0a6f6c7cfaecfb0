"""Compares an ordered result with the gold, where rows with equal sort keys may be swapped. Needs only Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentgym.core.answers.cells import canonical
from agentgym.core.answers.written import FEWEST_DECIMALS
from agentgym.envs.sql.grading import match
from agentgym.tools.database.base import QueryError, QueryResult


def match_with_swaps(
    predicted: QueryResult,
    gold: QueryResult,
    keyed_sql: str | None,
    run: Callable[[str], QueryResult],
    fewest: int | None = FEWEST_DECIMALS,
) -> bool:
    """Whether `predicted` has the gold's rows, where rows whose sort keys are equal may be swapped.

    Args:
        predicted: Result of the policy's query.
        gold: Result of the gold query.
        keyed_sql: The gold query with its sort keys as further columns; `None` if it cannot be rewritten.
        run: Runs a query on the same database.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if len(predicted.rows) != len(gold.rows) or not match(predicted, gold, False, fewest).equal:
        return False
    groups = _groups(gold, keyed_sql, run)
    return groups is not None and match(_marked(predicted, groups), _marked(gold, groups), False, fewest).equal


def _groups(gold: QueryResult, keyed_sql: str | None, run: Callable[[str], QueryResult]) -> list[int] | None:
    """Return the number of the tie group of each gold row; `None` if the keyed query returns other rows."""
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
