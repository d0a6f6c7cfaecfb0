"""Opponents in games for two players: functions from the game's messages to a move."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from agentgym.errors import InfrastructureError

Opponent = Callable[[str], str]
"""Maps all messages of the game to the opponent in this episode to its next move.

One opponent plays many episodes, so a move must depend only on the messages and on the module `random`, which is seeded
for each episode.
"""

_LISTED = re.compile(r"\b(?:available|legal|possible|valid) (?:actions|moves)\b[^:\n]*:([^\n]*)", re.IGNORECASE)
_MOVE = re.compile(r"\[[^\[\]]+\]")


def legal_moves(text: str) -> list[str]:
    """Return the legal moves that a game listed last, such as `Available Moves: '[0]', '[4]'`; may be empty."""
    lists = _LISTED.findall(text)
    return _MOVE.findall(lists[-1]) if lists else []


class RandomMoves:
    """An opponent that makes a random move out of those that the game lists.

    Args:
        seed: Its seed.
    """

    def __init__(self, seed: int):
        self._random = random.Random(f"opponent {seed}")

    def __call__(self, text: str) -> str:
        """Return a move. Raises `InfrastructureError` if the game lists no moves."""
        moves = legal_moves(text)
        if not moves:
            raise InfrastructureError("the game lists no legal moves to choose from; pass opponent=")
        return self._random.choice(moves)
