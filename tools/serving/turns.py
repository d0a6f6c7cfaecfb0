"""Limits concurrent work: some requests run, some wait, and all others are refused."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentgym.tools.serving.presence import Gone, Presence


class Busy(Exception):
    """A request cannot be served now: `status` is 429 if too many wait, 503 after a long wait or at shutdown."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Turns:
    """A bounded, first-come-first-served queue. Use only in the event loop's thread.

    Args:
        at_work: Maximum running at a time; for turns with a weight, such as bytes of memory, the maximum total weight.
        waiting: Maximum waiting for a turn; others are refused immediately.
        patience_s: Maximum seconds to wait.
    """

    def __init__(self, at_work: int, waiting: int, patience_s: float) -> None:
        self._most = self._free = at_work
        self._most_waiting = waiting
        self._patience_s = patience_s
        self._queue: deque[_Waiting] = deque()
        self._closed = False

    @asynccontextmanager
    async def turn(self, client: Presence, weight: int = 1) -> AsyncIterator[None]:
        """Wait for a turn, hold it, and release it. A weight above the maximum counts as the maximum.

        Raises:
            Busy: Too many are waiting, the wait takes too long, or the server is stopping.
            Gone: The client disconnected while waiting.
        """
        if self._closed:
            raise _stopping()
        weight = min(weight, self._most)
        if weight <= self._free and not self._queue:
            self._free -= weight
        else:
            await self._wait(client, weight)
        try:
            yield
        finally:
            self._give_back(weight)

    def close(self) -> None:
        """Give no more turns; those in progress continue."""
        self._closed = True
        for waiting in self._queue:
            if not waiting.future.done():
                waiting.future.set_exception(_stopping())
        self._queue.clear()

    async def _wait(self, client: Presence, weight: int) -> None:
        if len(self._queue) >= self._most_waiting:
            self._drop_departed()
        if len(self._queue) >= self._most_waiting:
            raise Busy(429, f"{self._most_waiting} requests are waiting already; try again later")
        waiting = _Waiting(asyncio.get_running_loop().create_future(), client, weight)
        self._queue.append(waiting)
        try:
            async with asyncio.timeout(self._patience_s):
                await waiting.future
        except BaseException as error:
            came = waiting.future.done() and not waiting.future.cancelled() and waiting.future.exception() is None
            # Requests behind this one may fit where it did not.
            self._give_back(weight if came else 0)
            if isinstance(error, TimeoutError):
                raise Busy(503, f"no turn came within {self._patience_s:g} s; try again later") from None
            raise

    def _give_back(self, weight: int) -> None:
        self._free += weight
        self._drop_departed()
        while self._queue and self._queue[0].weight <= self._free:
            first = self._queue.popleft()
            self._free -= first.weight
            first.future.set_result(None)

    def _drop_departed(self) -> None:
        """Remove the waiting requests whose client is gone."""
        for each in self._queue:
            if each.client.gone and not each.future.done():
                each.future.set_exception(Gone())
        self._queue = deque(each for each in self._queue if not each.future.done())


@dataclass(frozen=True, eq=False)
class _Waiting:
    future: asyncio.Future[None]
    client: Presence
    weight: int


def _stopping() -> Busy:
    return Busy(503, "the server is stopping")
