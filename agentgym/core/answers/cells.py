"""Compares cells and multisets of rows, regardless of the engine that returned them.

Numbers are compared by value, whatever their type (`numbers.same_number`); booleans are 0 and 1. A date equals its ISO
text, and a timestamp at midnight its date. NULL equals NULL. Text is compared as it is, in Unicode's form C.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from agentgym.core.answers.numbers import AT_ZERO, SINGLE_RELATIVE, Single, is_rounded, same_number
from agentgym.core.answers.texts import nfc

_MIDNIGHT = " 00:00:00"
_MAX_PAIRINGS = 250_000
"""Beyond this many candidate pairs, rows with fractional numbers are paired in sorted order."""
_SINGLE = frozenset({"FLOAT"})
"""Names of columns of single precision: DuckDB's. SQLite's REAL is a double."""

Row = tuple[Any, ...]


def canonical(cell: Any, column_type: str = "") -> Any:
    """Return a cell in canonical form for comparison: `None`, `int`, `float`, `Decimal` or `str`.

    Args:
        cell: The cell.
        column_type: The engine's name for the type of its column.
    """
    if cell is None or type(cell) is int:
        return cell
    if isinstance(cell, str):
        return cell[:10] if cell.endswith(_MIDNIGHT) and len(cell) == 19 else nfc(cell)
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, float | Decimal):
        if not math.isfinite(cell):
            return str(float(cell))
        return Single(cell) if column_type in _SINGLE else cell
    if isinstance(cell, datetime.datetime):
        return canonical(cell.isoformat(sep=" "))
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    return str(cell)


def is_number(cell: Any) -> bool:
    """Whether a canonical cell is a number."""
    return not isinstance(cell, str | None)


def is_fractional(cell: Any) -> bool:
    """Whether a canonical cell is a number that may equal another one."""
    return isinstance(cell, float | Decimal)


def close(cell: Any, gold: Any, fewest: int | None = None) -> bool:
    """Whether a canonical cell equals that of the gold.

    Args:
        cell: The cell.
        gold: The gold's cell.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if not (is_fractional(cell) or is_fractional(gold)):
        return bool(cell == gold)
    if not (is_number(cell) and is_number(gold)):
        return False
    return same_number(cell, gold) or (fewest is not None and is_rounded(cell, gold, fewest))


def fractional(rows: Sequence[Row], width: int) -> frozenset[int]:
    """Return the columns that contain a number with a tolerance."""
    return frozenset(i for i in range(width) if any(is_fractional(row[i]) for row in rows))


def common_rows(
    rows: Sequence[Row], gold_rows: Sequence[Row], fractions: frozenset[int], fewest: int | None = None
) -> int:
    """Return the number of rows that two multisets of canonical rows have in common.

    Args:
        rows: Rows.
        gold_rows: The gold's rows, of the same width.
        fractions: Columns whose numbers need the tolerance.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    counts, gold_counts = Counter(rows), Counter(gold_rows)
    shared = counts & gold_counts
    count = shared.total()
    if not fractions:
        return count
    buckets: defaultdict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rest in enumerate((counts - shared, gold_counts - shared)):
        for row in rest.elements():
            buckets[_without_numbers(row, fractions)][side].append(row)
    return count + sum(_count_pairs(*sides, fractions, fewest) for sides in buckets.values() if all(sides))


def same_rows(rows: Sequence[Row], gold_rows: Sequence[Row]) -> bool:
    """Whether two results have the same rows in any order, column by column."""
    mine, theirs = ([tuple(map(canonical, row)) for row in side] for side in (rows, gold_rows))
    if len(mine) != len(theirs) or {len(row) for row in mine} != {len(row) for row in theirs}:
        return False
    width = len(mine[0]) if mine else 0
    return common_rows(mine, theirs, fractional([*mine, *theirs], width)) == len(theirs)


def pair_off(fitting: Sequence[Sequence[int]]) -> int:
    """Return the largest number of disjoint pairs, given the numbers of the targets that fit each item.

    This is a maximum bipartite matching, by augmenting paths. It recurses once per item of a path, so keep the smaller
    side to a few hundred.
    """
    owner: dict[int, int] = {}

    def find_place(number: int, visited: set[int]) -> bool:
        for place in fitting[number]:
            if place not in visited:
                visited.add(place)
                if place not in owner or find_place(owner[place], visited):
                    owner[place] = number
                    return True
        return False

    return sum(find_place(number, set()) for number in range(len(fitting)))


def _without_numbers(row: Row, fractions: frozenset[int]) -> Row:
    return tuple(0.0 if i in fractions and is_number(cell) else cell for i, cell in enumerate(row))


def _count_pairs(rows: list[Row], gold_rows: list[Row], fractions: frozenset[int], fewest: int | None) -> int:
    """Count pairs of equal rows; the two sides differ in numbers of the columns `fractions` at most."""
    columns = [i for i in sorted(fractions) if is_number(rows[0][i])]
    key = _numbers_of(columns)
    rows, gold_rows = sorted(rows, key=key), sorted(gold_rows, key=key)
    if len(rows) * len(gold_rows) > _MAX_PAIRINGS:
        return sum(close_rows(row, gold, fewest) for row, gold in zip(rows, gold_rows, strict=False))
    if not columns:
        return 0
    firsts = [float(gold[columns[0]]) for gold in gold_rows]
    fitting: list[list[int]] = []
    for row in rows:
        first = float(row[columns[0]])
        reach = max(AT_ZERO, 2 * SINGLE_RELATIVE * abs(first), 0.0 if fewest is None else 10.0**-fewest)
        window = range(bisect_left(firsts, first - reach), bisect_right(firsts, first + reach))
        fitting.append([place for place in window if close_rows(row, gold_rows[place], fewest)])
    return pair_off(fitting)


def close_rows(row: Row, gold_row: Row, fewest: int | None) -> bool:
    """Whether two canonical rows of the same width are equal cell by cell; `fewest` as in `close`."""
    return all(close(cell, gold, fewest) for cell, gold in zip(row, gold_row, strict=True))


def _numbers_of(columns: Sequence[int]) -> Callable[[Row], tuple[float, ...]]:
    return lambda row: tuple(float(row[i]) for i in columns)
