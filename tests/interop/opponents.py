"""Opponents in games of TextArena."""

from __future__ import annotations

import random


def any_column(messages: str) -> str:
    """Play Connect Four at random; a column is never full in the few turns that tests play."""
    return f"[col {random.randrange(7)}]"


def last_column(messages: str) -> str:
    """Play Connect Four in one column."""
    return "[col 6]"


def two_columns(messages: str) -> str:
    """Play Connect Four in two columns, in turns."""
    return f"[col {4 + 2 * (messages.count('Board state:') // 2 % 2)}]"


def nonsense(messages: str) -> str:
    """Break the rules of any game."""
    return "What?"


def broken(messages: str) -> str:
    """Break down."""
    raise ConnectionError("the model is away")
