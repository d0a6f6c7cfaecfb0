"""`PooledEpisodes`: episodes for programs that play many concurrently on their own event loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from agentgym.interop.called import CalledEpisode
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.workers.pool import EnvPool, discard

_MANY = 2**20


@dataclass
class _Here:
    """The environments of one event loop: an asynchronous environment's resources belong to its loop."""

    pool: EnvPool
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    room: asyncio.Semaphore | None = None
    playing: int = 0


class PooledEpisodes:
    """Episodes of one environment. Instances are reused unless their episode failed.

    Args:
        factory: Makes the environments.
        make_s: Seconds to make an environment; `None` means no limit.
    """

    def __init__(self, factory: EnvFactory, make_s: float | None = 300.0):
        self._factory, self._make_s = factory, make_s
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Here] = WeakKeyDictionary()

    async def take(self) -> CalledEpisode:
        """Return an episode to begin; waits while the maximum number (`max_concurrent`) is playing.

        Raises:
            InfrastructureError: The environment cannot be made.
        """
        here = self._here()
        room = await self._room(here)
        await room.acquire()
        here.playing += 1
        try:
            return CalledEpisode(await here.pool.take(self._make_s))
        except BaseException:
            self._leave(here)
            raise

    async def give_back(self, episode: CalledEpisode) -> None:
        """Take an episode back. Its environment is closed if the episode failed or is still running."""
        here = self._here()
        try:
            if episode.has_failed or not episode.is_over:
                await discard(episode.env)
            else:
                here.pool.give_back(episode.env)
        finally:
            self._leave(here)

    async def _room(self, here: _Here) -> asyncio.Semaphore:
        async with here.asking:  # `at_once` makes an environment, and their number is limited
            if here.room is None:
                here.room = asyncio.Semaphore(await here.pool.at_once(_MANY, self._make_s))
        return here.room

    def _leave(self, here: _Here) -> None:
        here.playing -= 1
        if here.room is not None:
            here.room.release()

    async def close_if_idle(self) -> None:
        """Close the environments of this event loop if none is playing, for programs without a shutdown hook."""
        if not self._here().playing:
            await self.close()

    async def close(self) -> None:
        """Close the idle environments of this event loop."""
        await self._here().pool.close()

    def _here(self) -> _Here:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _Here(EnvPool(self._factory))
        return self._loops[loop]
