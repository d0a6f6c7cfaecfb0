"""Limits concurrent work: some requests run, some wait, and all others are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException


class Turns:
    """A bounded, first-come-first-served queue. Use only in the event loop's thread.

    Args:
        at_work: Maximum running at a time; for turns with a weight, such as bytes of memory, the maximum total weight.
        waiting: Maximum waiting for a turn; others are refused immediately.
        patience_s: Maximum seconds to wait.
    """

    def __init__(self, at_work: int, waiting: int, patience_s: float) -> None:
        self._most = self._free = at_work
        self._most_waiting, self._waiting = waiting, 0
        self._patience_s = patience_s
        self._door = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def turn(self, weight: int = 1) -> AsyncIterator[None]:
        """Wait for a turn, hold it, and release it. A weight above the maximum counts as the maximum.

        Raises:
            HTTPException: 429 if too many are waiting, 503 if the wait takes too long.
        """
        weight = min(weight, self._most)
        await self._wait(weight)
        try:
            yield
        finally:
            self._free += weight
            self._freed.set()

    async def _wait(self, weight: int) -> None:
        if self._waiting >= self._most_waiting:
            raise HTTPException(429, f"{self._most_waiting} requests are waiting already; try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience_s), self._door:  # acquired in order of arrival
                while self._free < weight:
                    self._freed.clear()
                    await self._freed.wait()
                self._free -= weight
        except TimeoutError:
            raise HTTPException(503, f"no turn came within {self._patience_s:g} s; try again later") from None
        finally:
            self._waiting -= 1
