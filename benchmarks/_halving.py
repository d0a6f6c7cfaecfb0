"""The clients of `served_steps_vs_openenv`: find hidden numbers by halving. Does not import agentgym."""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Protocol

_WARM_UP = 5
_APART = 1_000_000
"""Distance between the first seeds of two clients, so that they play different episodes."""


class Game(Protocol):
    """Episodes of the guessing game, one after another."""

    def begin(self, seed: int) -> int:
        """Start an episode; return the highest possible number."""
        ...

    def guess(self, number: int) -> tuple[str, bool]:
        """Guess; return the answer, and whether the episode is over."""
        ...


def play(game: Game, seconds: float, seed: int) -> None:
    """Print `ready` after some episodes and wait for a line; then play, and print the seconds of each step as JSON."""
    for number in range(_WARM_UP):
        _episode(game, number)
    print("ready", flush=True)
    sys.stdin.readline()
    waits: list[float] = []
    numbers = itertools.count(seed * _APART)
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        waits += _episode(game, next(numbers))
    print(json.dumps({"steps": len(waits), "seconds": spent, "waits": waits}), flush=True)


def _episode(game: Game, seed: int) -> list[float]:
    """Play an episode; return the seconds that each step took."""
    low, high = 1, game.begin(seed)
    waits: list[float] = []
    is_over = False
    while not is_over:
        middle = (low + high) // 2
        began = time.perf_counter()
        answer, is_over = game.guess(middle)
        waits.append(time.perf_counter() - began)
        low, high = (middle + 1, high) if "higher" in answer else (low, middle - 1)
    return waits
