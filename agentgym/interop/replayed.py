"""`ReplayedEpisode`: an episode that goes on in a fresh environment when its own breaks.

A program that runs the conversation itself often has no way to drop an episode: it would read a failure as a zero
reward, or stop. An episode follows from its seed, its options and its actions, so it can be played again up to where it
was, unseen by the policy.
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
    """A `CalledEpisode` that plays on in a fresh environment after an `InfrastructureError`.

    What the policy has read so far must come out the same there; otherwise, or if the attempts are used up, the error
    is raised and the episode has failed.

    Args:
        make: Makes an environment.
        attempts: How often each turn is tried, from 1.
    """

    def __init__(self, make: Callable[[], Env], *, attempts: int = 3):
        super().__init__(make())
        self._make, self._attempts = make, attempts
        self._beginning: dict[str, Any] = {}
        self._turns: list[tuple[Any, list[Message]]] = []

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode; without a seed, it cannot be played again once it has begun."""
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
        return await self._tried(lambda: how.begin(**self._beginning), lambda: how.renew())

    async def _next(self, how: _Now, action: Any) -> list[Message]:
        if self.is_over:
            return self._over()
        observation = await self._tried(lambda: how.step(action), lambda: self._caught_up(how))
        self._turns.append((action, observation))
        return observation

    async def _last(self, how: _Now, reason: AnyReason) -> float:
        if self.is_over:
            return self.reward
        return await self._tried(lambda: how.end(reason), lambda: self._caught_up(how))

    async def _tried(self, play: _Play, restart: _Play) -> Any:
        for left in reversed(range(self._attempts)):
            try:
                if self.has_failed:
                    await restart()
                return await play()
            except InfrastructureError as error:
                self.is_over = self.has_failed = True
                if not left:
                    raise
                logger.warning("the episode is played again in a fresh environment: %s", error)

    async def _caught_up(self, how: _Now) -> None:
        """Play the turns so far in a fresh environment."""
        if self._beginning["seed"] is None:
            raise InfrastructureError("an episode without a seed cannot be played again: begin it with one")
        opening = self.opening
        await how.renew()
        if await how.begin(**self._beginning) != opening:
            raise InfrastructureError("a fresh environment opened the episode with other messages")
        for action, observation in self._turns:
            if await how.step(action) != observation:
                raise InfrastructureError("a fresh environment answered a turn of the episode with other messages")


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
        """Replace the environment; errors of the broken one's end say nothing new."""
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
