"""`TurnGate`: holds the episodes of a rollout between two turns, such as while the weights of their policy change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class TurnGate:
    """Lets token policies sample turns while it is open. It belongs to one event loop."""

    def __init__(self) -> None:
        self._opened, self._idle = asyncio.Event(), asyncio.Event()
        self._opened.set()
        self._idle.set()
        self._sampling = 0
        """Turns that are being sampled."""

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[float]:
        """Wait until the gate is open, then count the caller's turn; yields the seconds of waiting."""
        held_s = 0.0 if self._opened.is_set() else await self._held()
        self._sampling += 1
        self._idle.clear()
        try:
            yield held_s
        finally:
            self._sampling -= 1
            if not self._sampling:
                self._idle.set()

    async def _held(self) -> float:
        began = time.monotonic()
        while not self._opened.is_set():  # it may close again before a waiting episode continues
            await self._opened.wait()
        return time.monotonic() - began

    def open(self) -> None:
        """Let turns begin."""
        self._opened.set()

    async def close(self) -> None:
        """Let no further turn begin; return once no turn is being sampled."""
        self._opened.clear()
        await self._idle.wait()
