"""Whether something happens too often to be luck."""

from __future__ import annotations

from math import comb

SURE = 0.01
"""Probability below which luck is ruled out."""

ENOUGH = 24
"""Tasks played before something that happened often is blamed on more than luck."""


def is_no_luck(count: int, of: int, limit: float) -> bool:
    """Whether what may happen with probability `limit` happened in `count` of `of` cases by more than luck."""
    tail = sum(comb(of, k) * limit**k * (1 - limit) ** (of - k) for k in range(count, of + 1))
    return tail < SURE
