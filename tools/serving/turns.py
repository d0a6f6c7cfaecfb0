"""Taking turns: so many at work at one time, so many waiting, and a plain answer to all others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentgym.tools.serving.presence import Presence


class Busy(Exception):
    """A request cannot be served now: `status` is 429 if too many wait, 503 if the wait is too long or all ends."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Turns:
    """Turns at some work, first come, first served. For the event loop's thread only.

    Args:
        at_work: The most at one time.
        waiting: The most that wait for their turn; others are refused at once.
        patience_s: How long one may wait.
    """

    def __init__(self, at_work: int, waiting: int, patience_s: float) -> None:
        self._free = at_work
        self._most_waiting = waiting
        self._patience_s = patience_s
        self._queue: deque[tuple[asyncio.Future[None], Presence]] = deque()
        self._closed = False

    @asynccontextmanager
    async def turn(self, client: Presence) -> AsyncIterator[None]:
        """Wait for a turn, hold it, and give it back.

        Raises:
            Busy: Too many wait, or it takes too long, or there are no more turns.
        """
        if self._closed:
            raise _stopping()
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on()

    def close(self) -> None:
        """Give no more turns; those that are held go on."""
        self._closed = True
        while self._queue:
            future, _ = self._queue.popleft()
            if not future.done():
                future.set_exception(_stopping())

    async def _wait(self, client: Presence) -> None:
        if len(self._queue) >= self._most_waiting:
            self._queue = deque(each for each in self._queue if not each[1].gone)
        if len(self._queue) >= self._most_waiting:
            raise Busy(429, f"{self._most_waiting} requests are waiting already; try again later")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((future, client))
        try:
            async with asyncio.timeout(self._patience_s):
                await future
        except BaseException as error:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise Busy(503, f"no turn came within {self._patience_s:g} s; try again later") from None
            raise

    def _pass_on(self) -> None:
        while self._queue:
            future, client = self._queue.popleft()
            if not future.done() and not client.gone:
                future.set_result(None)
                return
            future.cancel()
        self._free += 1


def _stopping() -> Busy:
    return Busy(503, "the server is stopping")
