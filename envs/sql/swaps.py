"""Compares a result with a gold whose ties leave several results right. Needs only Python.

Rows with equal sort keys may be swapped, and where LIMIT cuts through such rows, any of them may be returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, permutations
from typing import Any

from agentgym.core.answers.cells import canonical, close
from agentgym.core.answers.written import FEWEST_DECIMALS
from agentgym.envs.sql.grading import match
from agentgym.tools.database.base import QueryError, QueryResult

_MAX_ORDERS = 24
"""Number of orders of the predicted columns to try where LIMIT cuts a tie."""


@dataclass(frozen=True)
class Ties:
    """The parts of a gold query that its ties depend on."""

    keyed: str
    """The query without LIMIT, with its sort keys among its columns."""
    keys: tuple[int, ...]
    """Positions of the sort keys among these columns, negative for columns that were added at the end."""
    start: int = 0
    """Number of rows that OFFSET skips."""
    limit: int | None = None


@dataclass(frozen=True)
class TieGroup:
    """Rows with equal sort keys."""

    rows: tuple[tuple[Any, ...], ...]
    returned: int
    """Number of them that the query returns."""

    @property
    def is_cut(self) -> bool:
        """Whether the query returns some of them, but not all."""
        return 0 < self.returned < len(self.rows)


def match_with_ties(
    predicted: QueryResult,
    gold: QueryResult,
    ties: Ties | None,
    ordered: bool,
    run: Callable[[str], QueryResult],
    fewest: int | None = FEWEST_DECIMALS,
) -> bool:
    """Whether `predicted` is a result that the gold's ORDER BY and LIMIT allow.

    Args:
        predicted: Result of the policy's query.
        gold: Result of the gold query.
        ties: The gold query's ties; `None` if it cannot be rewritten.
        ordered: Whether the question asks for an order of the rows.
        run: Runs a query on the same database.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if ties is None or len(predicted.rows) != len(gold.rows) or len(predicted.columns) != len(gold.columns):
        return False
    if not ordered and ties.limit is None:
        return False
    groups = groups_of(ties, run)
    if groups is None or sum(group.returned for group in groups) != len(gold.rows):
        return False
    if any(len(row) != len(gold.columns) for group in groups for row in group.rows[:1]):
        return False
    numbers = [number for number, group in enumerate(groups) for _ in range(group.returned)]
    for rows in _allowed(predicted, groups, fewest):
        allowed = replace(gold, rows=rows)
        if ordered and match(_marked(predicted, numbers), _marked(allowed, numbers), False, fewest).equal:
            return True
        if not ordered and match(predicted, allowed, False, fewest).equal:
            return True
    return False


def groups_of(ties: Ties, run: Callable[[str], QueryResult]) -> list[TieGroup] | None:
    """Return the rows of the query without LIMIT, grouped by sort key; `None` if they cannot be read completely.

    Args:
        ties: The query's ties.
        run: Runs a query on the same database.
    """
    try:
        keyed = run(ties.keyed)
    except QueryError:
        return None
    width = len(keyed.columns) - sum(key < 0 for key in ties.keys)
    if keyed.truncated or not all(-len(keyed.columns) <= key < len(keyed.columns) for key in ties.keys):
        return None
    end = len(keyed.rows) if ties.limit is None else ties.start + ties.limit
    groups: list[TieGroup] = []
    place = 0
    for _, tied in groupby(keyed.rows, key=lambda row: [canonical(row[key]) for key in ties.keys]):
        rows = tuple(row[:width] for row in tied)
        returned = max(0, min(place + len(rows), end) - max(place, ties.start))
        groups.append(TieGroup(rows, returned))
        place += len(rows)
    return groups


def _allowed(
    predicted: QueryResult, groups: Sequence[TieGroup], fewest: int | None
) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield allowed results. Of groups that LIMIT cuts, they have the rows that `predicted` has, as far as possible."""
    width = len(predicted.columns)
    orders = islice(permutations(range(width)), _MAX_ORDERS) if any(group.is_cut for group in groups) else [()]
    for order in orders:
        rest = [tuple(canonical(row[i]) for i in order) for row in predicted.rows]
        rows: list[tuple[Any, ...]] = []
        for group in groups:
            rows += _chosen(group, rest, fewest) if group.is_cut else group.rows[: group.returned]
        yield tuple(rows)


def _chosen(group: TieGroup, rest: list[tuple[Any, ...]], fewest: int | None) -> list[tuple[Any, ...]]:
    """Return as many rows of a group as the query returns, those in `rest` first; remove these from `rest`."""
    chosen: list[tuple[Any, ...]] = []
    others: list[tuple[Any, ...]] = []
    for row in group.rows:
        cells = tuple(map(canonical, row))
        place = next((i for i, other in enumerate(rest) if _equal(other, cells, fewest)), None)
        if place is None or len(chosen) == group.returned:
            others.append(row)
        else:
            del rest[place]
            chosen.append(row)
    return [*chosen, *others][: group.returned]


def _equal(cells: tuple[Any, ...], gold: tuple[Any, ...], fewest: int | None) -> bool:
    return all(close(cell, other, fewest) for cell, other in zip(cells, gold, strict=True))


def _marked(result: QueryResult, numbers: Sequence[int]) -> QueryResult:
    """Return `result` with the number of each row's group as an extra column that matches no other."""
    rows = tuple((f"\0{number}", *row) for number, row in zip(numbers, result.rows, strict=True))
    return replace(result, columns=("", *result.columns), types=("", *result.types), rows=rows)
