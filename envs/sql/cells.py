"""Compares cells and multisets of rows, regardless of the engine that returned them.

Numbers are compared by value, whatever their type; booleans are 0 and 1. Whole numbers must be exactly equal,
fractional ones within `RELATIVE` or `ABSOLUTE`: enough for sums in another order, too little to accept a different
answer. A date equals its ISO text, and a timestamp at midnight its date. NULL equals NULL. Text is compared as it is.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

RELATIVE = 1e-6
ABSOLUTE = 1e-9
_WHOLE = 1e-9
"""A float this close to a whole number (relatively) is treated as that number."""
_MIDNIGHT = " 00:00:00"
_MAX_PAIRINGS = 250_000
"""Beyond this many candidate pairs, rows with fractional numbers are paired in sorted order."""

Row = tuple[Any, ...]


def canonical(cell: Any) -> Any:
    """Return a cell in canonical form for comparison: `None`, `int`, `float` or `str`."""
    if cell is None or type(cell) is int:
        return cell
    if isinstance(cell, str):
        return cell[:10] if cell.endswith(_MIDNIGHT) and len(cell) == 19 else cell
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, float | Decimal):
        return _number(float(cell))
    if isinstance(cell, datetime.datetime):
        return canonical(cell.isoformat(sep=" "))
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    return str(cell)


def close(left: Any, right: Any) -> bool:
    """Whether two canonical cells are equal."""
    if left == right:
        return True
    if isinstance(left, float) or isinstance(right, float):
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        return numbers and math.isclose(left, right, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return False


def fractional(rows: Sequence[Row], width: int) -> frozenset[int]:
    """Return the columns that contain a number with a fraction."""
    return frozenset(i for i in range(width) if any(type(row[i]) is float for row in rows))


def common_rows(left: Sequence[Row], right: Sequence[Row], fractions: frozenset[int]) -> int:
    """Return the number of rows that two multisets of canonical rows have in common.

    Args:
        left: Rows.
        right: Rows of the same width.
        fractions: Columns whose numbers need the tolerance.
    """
    left_count, right_count = Counter(left), Counter(right)
    shared = left_count & right_count
    count = shared.total()
    if not fractions:
        return count
    buckets: defaultdict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rest in enumerate((left_count - shared, right_count - shared)):
        for row in rest.elements():
            buckets[_without_numbers(row, fractions)][side].append(row)
    return count + sum(_pair(mine, theirs) for mine, theirs in buckets.values() if mine and theirs)


def _number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return str(value)
    nearest = round(value)
    return nearest if abs(value - nearest) <= _WHOLE * max(1.0, abs(value)) and (nearest or not value) else value


def _without_numbers(row: Row, fractions: frozenset[int]) -> Row:
    return tuple(0.0 if i in fractions and isinstance(cell, int | float) else cell for i, cell in enumerate(row))


def _pair(left: list[Row], right: list[Row]) -> int:
    """Count pairs of equal rows; the two sides differ in fractional numbers at most."""
    order = _by_numbers
    left, right = sorted(left, key=order), sorted(right, key=order)
    if len(left) * len(right) > _MAX_PAIRINGS:
        return sum(_equal(a, b) for a, b in zip(left, right, strict=False))
    pairs = 0
    for row in left:
        for index, other in enumerate(right):
            if _equal(row, other):
                del right[index]
                pairs += 1
                break
    return pairs


def _by_numbers(row: Row) -> tuple[float, ...]:
    return tuple(float(cell) for cell in row if isinstance(cell, int | float))


def _equal(left: Row, right: Row) -> bool:
    return all(map(close, left, right))
