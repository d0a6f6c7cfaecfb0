"""Places whose environments are in another process or on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.endings import AnyReason, Reason
from agentgym.engine.spaces import Action
from agentgym.messages import Message
from agentgym.policy import Player, ScriptedPolicy
from agentgym.rollout.deadlines import OutOfTime, within
from agentgym.rollout.failures import WorkerLost
from agentgym.rollout.workers.base import EpisodeOpening, PlayedTurn
from agentgym.rollout.workers.host import SCRIPT, sealed
from agentgym.task import Task

DISCARD_S = 30.0
"""Seconds for a host to close an environment before it counts as stuck."""


class HostConnection(Protocol):
    """Sends requests to a host."""

    async def ask(self, place: int, verb: str, *arguments: Any) -> Any:
        """Send a request and return the value of its reply, or raise its error.

        Raises:
            WorkerLost: The host is dead.
        """
        ...

    def kill(self, why: str) -> None:
        """End the host at once. All its requests raise `WorkerLost`."""
        ...


@dataclass
class RemotePlace:
    """One environment of a host."""

    host: HostConnection
    number: int
    free: Callable[[], None]
    """Called once the place is free."""
    stuck: Callable[[], None]
    """Called instead if the environment did not return in time."""

    async def reset(self, seed: int, task: Task, training_step: int | None) -> EpisodeOpening:
        """Start an episode."""
        return await self.host.ask(self.number, "reset", seed, task, training_step)

    async def step(self, action: Action, tool_limit_s: float | None) -> PlayedTurn:
        """Play a turn."""
        return await self.host.ask(self.number, "step", action, tool_limit_s)

    async def interrupt(self, reason: AnyReason) -> PlayedTurn:
        """End the episode and grade it."""
        return await self.host.ask(self.number, "interrupt", reason)

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script, which runs in the host."""
        await self.host.ask(self.number, "script", sealed(SCRIPT, policy))
        return _RemotePlayer(self)

    async def give_back(self) -> None:
        """Return the environment for use by another episode."""
        try:
            await self._leave("give_back")
        except WorkerLost:
            return  # the episode is complete

    async def discard(self, *, stuck: bool) -> None:
        """Get rid of the environment."""
        if stuck:
            self.stuck()
            return
        try:
            await self._leave("discard")
        except WorkerLost:
            return

    async def _leave(self, verb: str) -> None:
        try:
            await within(self.host.ask(self.number, verb), DISCARD_S, Reason.STEP_TIME, "closing an environment")
        except OutOfTime:
            self.host.kill("an environment could not be closed in time")
        finally:
            self.free()


class _RemotePlayer:
    """The player of a script that runs in a host."""

    def __init__(self, place: RemotePlace):
        self._place = place

    async def act(self, observation: list[Message]) -> Action | None:
        return await self._place.host.ask(self._place.number, "act", observation)
