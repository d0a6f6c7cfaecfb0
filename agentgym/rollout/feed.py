"""`GroupFeed`: plays groups in the order of their arrival, while its owner does other work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from agentgym.rollout.jobs import Group, PlayedGroup
from agentgym.rollout.streams import Events


class _Call(Protocol):
    def wait(self) -> Any: ...


class GroupFeed:
    """Plays groups until its engine closes (`RolloutEngine.feed`).

    Args:
        start: Starts a coroutine on the engine's event loop.
        soon: Calls a function on the thread of that loop.
        play: Plays the groups of an iterator, in which `None` means that there is no group yet.
    """

    def __init__(
        self,
        start: Callable[[Coroutine[Any, Any, Any]], _Call],
        soon: Callable[[Callable[[], object]], None],
        play: Callable[[Iterator[Group | None], Events], AsyncGenerator[PlayedGroup]],
    ):
        self._start, self._soon = start, soon
        self._arrived: deque[Group] = deque()
        self._events: Events = asyncio.Queue()
        self._played: asyncio.Queue[PlayedGroup | BaseException] = asyncio.Queue()
        start(self._pump(play(self._arrivals(), self._events)))

    def add(self, groups: Iterable[Group]) -> None:
        """Play more groups. The earliest have priority."""
        self._arrived.extend(groups)
        self._soon(lambda: self._events.put_nowait(None))

    def next(self) -> PlayedGroup:
        """Wait for a group whose trajectories are complete. Errors as for `RolloutEngine.play`."""
        return self._start(self._next()).wait()

    def ready(self) -> list[PlayedGroup]:
        """Return the complete groups that `next` has not returned yet, without waiting."""
        return self._start(self._ready()).wait()

    def _arrivals(self) -> Iterator[Group | None]:
        while True:
            yield self._arrived.popleft() if self._arrived else None

    async def _pump(self, stream: AsyncGenerator[PlayedGroup]) -> None:
        try:
            async with aclosing(stream):
                async for played_group in stream:
                    self._played.put_nowait(played_group)
        except BaseException as error:
            self._played.put_nowait(error)
            raise

    async def _next(self) -> PlayedGroup:
        item = await self._played.get()
        if isinstance(item, BaseException):
            self._played.put_nowait(item)  # for later calls
            raise item
        return item

    async def _ready(self) -> list[PlayedGroup]:
        return [await self._next() for _ in range(self._played.qsize())]
