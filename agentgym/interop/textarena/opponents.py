"""Opponents in games for two players: functions from what they have been shown to their move."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from agentgym.errors import InfrastructureError

Opponent = Callable[[str], str]
"""Maps all that the game has shown an opponent in this episode to its next move.

It plays many episodes, so what it does must follow from what it is shown, and from the module `random` if it likes:
that is seeded for each episode.
"""

_LISTED = re.compile(r"\b(?:available|legal|possible|valid) (?:actions|moves)\b[^:\n]*:([^\n]*)", re.IGNORECASE)
_MOVE = re.compile(r"\[[^\[\]]+\]")


def legal_moves(shown: str) -> list[str]:
    """Return the moves that a game listed last, such as `Available Moves: '[0]', '[4]'`; none if it lists none."""
    lists = _LISTED.findall(shown)
    return _MOVE.findall(lists[-1]) if lists else []


class RandomMoves:
    """An opponent that draws one of the moves that the game lists.

    Args:
        seed: Its seed.
    """

    def __init__(self, seed: int):
        self._random = random.Random(f"opponent {seed}")

    def __call__(self, shown: str) -> str:
        """Return a move. Raises `InfrastructureError` if the game lists none."""
        moves = legal_moves(shown)
        if not moves:
            raise InfrastructureError("the game lists no legal moves, of which one could be drawn; pass opponent=")
        return self._random.choice(moves)
