"""The interface of workers: places that each hold one environment and play one episode at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.dialects.base import Dialect
from agentgym.endings import AnyReason
from agentgym.engine.spaces import Action
from agentgym.engine.steps import StepResult
from agentgym.messages import Message
from agentgym.policy import Player, ScriptedPolicy
from agentgym.task import Task
from agentgym.timing import StepTimes


@dataclass(frozen=True)
class Opening:
    """What a reset returns to a rollout."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    """Schemas of the tools that the policy can call."""
    dialect: Dialect
    max_calls: int = 1
    """Tool calls allowed in one turn."""
    max_turns: int = 0
    """Turns after which the episode is truncated."""
    unrepeatable: str = ""
    """Why the episode cannot be played again from its actions (`Env.unrepeatable`)."""


@dataclass(frozen=True)
class Played:
    """What a turn returns to a rollout."""

    result: StepResult
    reason: AnyReason | None
    """Why the episode has ended; `None` while it goes on."""
    times: StepTimes
    """What the environment spent its time on."""


class Place(Protocol):
    """One environment, wherever it is. Whatever breaks raises; the rollout then discards the place."""

    async def reset(self, seed: int, task: Task, training_step: int | None) -> Opening:
        """Start an episode."""
        ...

    async def step(self, action: Action, tool_limit_s: float | None) -> Played:
        """Play a turn. Raises `OutOfTime` if a single tool takes longer than `tool_limit_s`."""
        ...

    async def interrupt(self, reason: AnyReason) -> Played:
        """End the episode and grade it."""
        ...

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script, which runs where the environment is."""
        ...

    async def give_back(self) -> None:
        """Keep the environment for another episode."""
        ...

    async def discard(self, *, stuck: bool) -> None:
        """Get rid of the environment.

        Args:
            stuck: It did not return in time, so it must not be waited for.
        """
        ...


class Workers(Protocol):
    """Hold the environments of a rollout. One event loop uses them."""

    async def at_once(self, wanted: int, limit_s: float | None = None) -> int:
        """Return how many of `wanted` episodes can run concurrently. More would wait for resources of the others.

        Args:
            wanted: The most that are of use.
            limit_s: Time limit for making the environment that says so.
        """
        ...

    async def take(self, limit_s: float | None) -> Place:
        """Return a place with an environment, used before or fresh.

        Args:
            limit_s: Time limit for making one, without the time spent waiting for others to be made.
        """
        ...

    def isolated(self) -> Workers:
        """Return these workers, but each place that they give has nothing beside it, where that can be had."""
        ...

    async def close(self) -> None:
        """Close all environments that are not in use, and release what held them."""
        ...
