"""Counts in English."""

from __future__ import annotations


def count_of(number: int, singular: str, many: str = "") -> str:
    """Return a number with its noun: `1 task`, `1,204 tasks`. `many` is an irregular plural."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"
