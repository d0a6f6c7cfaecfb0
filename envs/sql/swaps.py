"""Compares a result with a gold whose ties leave several results right. Needs only Python.

Rows with equal sort keys may be swapped, and where LIMIT cuts through such rows, any of them may be returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, permutations
from typing import Any

from agentgym.core.answers.cells import canonical, close_rows
from agentgym.core.answers.written import FEWEST_DECIMALS
from agentgym.envs.sql.grading import match
from agentgym.tools.database.base import QueryError, QueryResult

_MAX_ORDERS = 24
"""Number of orders of the predicted columns to try where LIMIT cuts a tie."""
_MAX_PAIRS = 100_000
"""Beyond this many candidate pairs, rows of a tie must be equal without a tolerance."""


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

    @property
    def is_whole(self) -> bool:
        """Whether the query returns all of them."""
        return self.returned == len(self.rows)


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
    """Yield results that the gold allows. Of groups that LIMIT cuts, they have rows that `predicted` has."""
    if not any(group.is_cut for group in groups):
        yield tuple(row for group in groups for row in group.rows[: group.returned])
        return
    cells = [[tuple(map(canonical, row)) for row in group.rows] for group in groups]
    whole = Counter(row for group, rows in zip(groups, cells, strict=True) if group.is_whole for row in rows)
    for order in islice(permutations(range(len(predicted.columns))), _MAX_ORDERS):
        rest = Counter(tuple(canonical(row[i]) for i in order) for row in predicted.rows) - whole
        chosen: list[tuple[Any, ...]] = []
        for group, rows in zip(groups, cells, strict=True):
            places = _claimed(rows, rest, group.returned, fewest) if group.is_cut else range(group.returned)
            chosen += [group.rows[place] for place in places]
        if len(chosen) == len(predicted.rows):
            yield tuple(chosen)


def _claimed(
    rows: Sequence[tuple[Any, ...]], rest: Counter[tuple[Any, ...]], count: int, fewest: int | None
) -> list[int]:
    """Return the places of at most `count` rows that are in `rest`; remove them from it."""
    places: list[int] = []
    others: list[int] = []
    for place, row in enumerate(rows):
        if rest[row] > 0 and len(places) < count:
            rest[row] -= 1
            places.append(place)
        else:
            others.append(place)
    near = list(rest.elements())
    if len(places) == count or len(near) * len(others) > _MAX_PAIRS:
        return places
    for place in others:
        row = next((row for row in near if close_rows(row, rows[place], fewest)), None)
        if row is not None and len(places) < count:
            near.remove(row)
            rest[row] -= 1
            places.append(place)
    return places


def _marked(result: QueryResult, numbers: Sequence[int]) -> QueryResult:
    """Return `result` with the number of each row's group as an extra column that matches no other."""
    rows = tuple((f"\0{number}", *row) for number, row in zip(numbers, result.rows, strict=True))
    return replace(result, columns=("", *result.columns), types=("", *result.types), rows=rows)
