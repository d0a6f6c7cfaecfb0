"""The interface of workers. Their places each hold one environment and play one episode at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.core.dialects.base import Dialect
from agentgym.core.endings import AnyReason
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import Message
from agentgym.core.policy import Player, ScriptedPolicy
from agentgym.core.task import Task
from agentgym.core.timing import StepTimes


@dataclass(frozen=True)
class EpisodeOpening:
    """The result of a reset."""

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
class PlayedTurn:
    """The result of a turn."""

    result: StepResult
    reason: AnyReason | None
    """Why the episode has ended; `None` before its end."""
    times: StepTimes
    """How long each part of the environment's work took."""


class EnvPlace(Protocol):
    """One environment, in any process. After an exception, the rollout discards the place."""

    async def reset(self, seed: int, task: Task, training_step: int | None) -> EpisodeOpening:
        """Start an episode."""
        ...

    async def step(self, action: Action, tool_limit_s: float | None) -> PlayedTurn:
        """Play a turn. Raises `OutOfTime` if a single tool takes longer than `tool_limit_s`."""
        ...

    async def interrupt(self, reason: AnyReason) -> PlayedTurn:
        """End the episode and grade it."""
        ...

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script, which runs where the environment is."""
        ...

    async def give_back(self) -> None:
        """Return the environment for use by another episode."""
        ...

    async def discard(self, *, stuck: bool) -> None:
        """Get rid of the environment.

        Args:
            stuck: It did not return in time, so do not wait for it.
        """
        ...


class Workers(Protocol):
    """Hold the environments of a rollout. One event loop uses them."""

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        """Return how many episodes can run concurrently without waiting for each other's resources.

        Args:
            most: Upper bound of the result.
            limit_s: Time limit for making the environment that says how many.
        """
        ...

    async def take(self, limit_s: float | None) -> EnvPlace:
        """Return a place with an environment, used before or fresh.

        Args:
            limit_s: Time limit for making one, without the time spent waiting for others to be made.
        """
        ...

    def isolated(self) -> Workers:
        """Return workers whose places do not share a process, if possible; else these workers."""
        ...

    async def close(self) -> None:
        """Close all environments that are not in use, and release their workers."""
        ...
