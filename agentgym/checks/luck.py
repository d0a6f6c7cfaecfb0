"""Decide whether something happens too often to be luck."""

from __future__ import annotations

from math import comb

SURE = 0.01
"""Probability below which luck is ruled out."""

ENOUGH = 24
"""Number of tasks to play before a frequent event is attributed to more than luck."""


def is_no_luck(count: int, of: int, limit: float) -> bool:
    """Return whether `count` of `of` cases are too many for an event of probability `limit` to be luck."""
    tail = sum(comb(of, k) * limit**k * (1 - limit) ** (of - k) for k in range(count, of + 1))
    return tail < SURE
