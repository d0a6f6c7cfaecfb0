"""Paces requests: concurrency, rates per minute, and the pauses that the endpoint asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext

from agentgym.rollout.deadlines import off_the_clock

_BURST_S = 10.0
"""Seconds' worth of a rate that may be used at once."""


class Rate:
    """A rate per minute. A request for more than is left must wait, after those made before.

    Args:
        per_minute: The rate.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic):
        self._per_s, self._clock = per_minute / 60, clock
        self._most = max(1.0, self._per_s * _BURST_S)
        self._left, self._at = self._most, clock()

    def take(self, amount: float) -> float:
        """Use an amount; return the seconds to wait first."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._left / self._per_s)

    def correct(self, amount: float) -> None:
        """Use `amount` more than was asked for, or less if it is negative."""
        self._left -= amount


class Pace:
    """What all requests of one policy wait for. Belongs to one event loop.

    Args:
        concurrency: Maximum concurrent requests.
        requests: Rate of requests.
        tokens: Rate of tokens.
    """

    def __init__(self, concurrency: int | None = None, requests: Rate | None = None, tokens: Rate | None = None):
        self._places = nullcontext() if concurrency is None else asyncio.Semaphore(concurrency)
        self._requests, self._tokens = requests, tokens
        self._paused_until = 0.0

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[None]:
        """Wait for a place for one request that will use about so many tokens, and hold it.

        Waiting does not count against the time limit of a turn.
        """
        async with AsyncExitStack() as held:
            with off_the_clock():
                await held.enter_async_context(self._places)
                await self._wait(tokens)
            yield

    async def _wait(self, tokens: int) -> None:
        wait = self._requests.take(1) if self._requests else 0.0
        wait = max(wait, self._tokens.take(tokens)) if self._tokens else wait
        if wait:
            await asyncio.sleep(wait)
        while (pause := self._paused_until - time.monotonic()) > 0:
            await asyncio.sleep(pause)

    def pause(self, seconds: float) -> None:
        """Let no request begin for a while."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def used(self, tokens: int, expected: int) -> None:
        """Correct the rate of tokens by what a request really used."""
        if self._tokens:
            self._tokens.correct(tokens - expected)
