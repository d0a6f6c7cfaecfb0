"""`ReplayedEpisode`: an episode that continues in a fresh environment when its own fails.

A program that runs the conversation itself often cannot drop an episode: it would treat a failure as a zero reward, or
stop. Seed, options and actions determine an episode, so it can be replayed up to the same point without the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from agentgym.endings import AnyReason, Reason
from agentgym.engine.drive import run_now
from agentgym.env import Env
from agentgym.errors import InfrastructureError
from agentgym.interop.called import CalledEpisode
from agentgym.messages import Message

logger = logging.getLogger(__name__)

_Play = Callable[[], Awaitable[Any]]


class ReplayedEpisode(CalledEpisode):
    """A `CalledEpisode` that continues in a fresh environment after an `InfrastructureError`.

    The replay must give the same observations. If it does not, or after the last attempt, the error is raised and the
    episode has failed.

    Args:
        make: Makes an environment.
        attempts: Attempts at each turn, at least 1.
    """

    def __init__(self, make: Callable[[], Env], *, attempts: int = 3):
        super().__init__(make())
        self._make, self._attempts = make, attempts
        self._beginning: dict[str, Any] = {}
        self._turns: list[tuple[Any, list[Message]]] = []

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode; without a seed, it cannot be replayed later."""
        return run_now(self._first(_Now(self), seed, options))

    async def abegin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """`begin` for asynchronous callers."""
        return await self._first(_Later(self), seed, options)

    def step(self, action: Any) -> list[Message]:
        """Play a turn; `OVER` after the end."""
        return run_now(self._next(_Now(self), action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        return await self._next(_Later(self), action)

    def end(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """End the episode if it still runs, and return its reward."""
        return run_now(self._last(_Now(self), reason))

    async def aend(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """`end` for asynchronous callers."""
        return await self._last(_Later(self), reason)

    async def _first(self, how: _Now, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        self._beginning, self._turns = {"seed": seed, "options": options}, []
        self.has_failed = False
        return await self._try(lambda: how.begin(**self._beginning), lambda: how.renew())

    async def _next(self, how: _Now, action: Any) -> list[Message]:
        if self.is_over:
            return self._over()
        observation = await self._try(lambda: how.step(action), lambda: self._replay(how))
        self._turns.append((action, observation))
        return observation

    async def _last(self, how: _Now, reason: AnyReason) -> float:
        if self.is_over:
            return self.reward
        return await self._try(lambda: how.end(reason), lambda: self._replay(how))

    async def _try(self, play: _Play, restart: _Play) -> Any:
        for attempts_left in reversed(range(self._attempts)):
            try:
                if self.has_failed:
                    await restart()
                return await play()
            except InfrastructureError as error:
                self.is_over = self.has_failed = True
                if not attempts_left:
                    raise
                logger.warning("replaying the episode in a fresh environment: %s", error)

    async def _replay(self, how: _Now) -> None:
        """Play the turns so far in a fresh environment."""
        if self._beginning["seed"] is None:
            raise InfrastructureError("an episode without a seed cannot be replayed: begin it with a seed")
        opening = self.opening
        await how.renew()
        if await how.begin(**self._beginning) != opening:
            raise InfrastructureError("the replay opened the episode with other messages")
        for action, observation in self._turns:
            if await how.step(action) != observation:
                raise InfrastructureError("the replay answered a turn with other messages")


class _Now:
    """Plays in the calling thread."""

    def __init__(self, episode: ReplayedEpisode):
        self.episode = episode

    async def begin(self, *, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        return CalledEpisode.begin(self.episode, seed=seed, options=options)

    async def step(self, action: Any) -> list[Message]:
        return CalledEpisode.step(self.episode, action)

    async def end(self, reason: AnyReason) -> float:
        return CalledEpisode.end(self.episode, reason)

    async def renew(self) -> None:
        """Replace the environment; errors in closing the failed one are ignored."""
        with suppress(Exception):
            self.episode.env.close()
        self.episode.env = self.episode._make()


class _Later(_Now):
    """Plays on the running event loop."""

    async def begin(self, *, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        return await CalledEpisode.abegin(self.episode, seed=seed, options=options)

    async def step(self, action: Any) -> list[Message]:
        return await CalledEpisode.astep(self.episode, action)

    async def end(self, reason: AnyReason) -> float:
        return await CalledEpisode.aend(self.episode, reason)

    async def renew(self) -> None:
        with suppress(Exception):
            await self.episode.env.aclose()
        self.episode.env = self.episode._make()
