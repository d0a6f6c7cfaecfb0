"""Counts of things, as English writes them."""

from __future__ import annotations


def count_of(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 task`, `1,204 tasks`. `many` is the plural where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
