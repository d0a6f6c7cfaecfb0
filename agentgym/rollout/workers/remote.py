"""Places whose environments are elsewhere. How requests get there is up to the connection."""

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
from agentgym.rollout.workers.base import Opening, Played
from agentgym.rollout.workers.host import SCRIPT, sealed
from agentgym.task import Task

DISCARD_S = 30.0
"""Seconds that a host has to close an environment before it counts as stuck."""


class Connection(Protocol):
    """A host that can be asked."""

    async def ask(self, place: int, verb: str, *arguments: Any) -> Any:
        """Send a request and return the value of its reply, or raise its error.

        Raises:
            WorkerLost: The host is gone.
        """
        ...

    def kill(self, why: str) -> None:
        """End the host at once. Everything asked of it raises `WorkerLost`."""
        ...


@dataclass
class RemotePlace:
    """One environment of a host."""

    host: Connection
    number: int
    left: Callable[[], None]
    """Called once the place is free."""
    stuck: Callable[[], None]
    """Called instead if the environment did not return in time."""

    async def reset(self, seed: int, task: Task, training_step: int | None) -> Opening:
        """Start an episode."""
        return await self.host.ask(self.number, "reset", seed, task, training_step)

    async def step(self, action: Action, tool_limit_s: float | None) -> Played:
        """Play a turn."""
        return await self.host.ask(self.number, "step", action, tool_limit_s)

    async def interrupt(self, reason: AnyReason) -> Played:
        """End the episode and grade it."""
        return await self.host.ask(self.number, "interrupt", reason)

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script, which runs in the host."""
        await self.host.ask(self.number, "script", sealed(SCRIPT, policy))
        return _RemotePlayer(self)

    async def give_back(self) -> None:
        """Keep the environment for another episode."""
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
            self.left()


class _RemotePlayer:
    """The player of a script that runs in a host."""

    def __init__(self, place: RemotePlace):
        self._place = place

    async def act(self, observation: list[Message]) -> Action | None:
        return await self._place.host.ask(self._place.number, "act", observation)
