"""Asking a policy: what it may raise, and how long it may take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import inf
from typing import Any

from agentgym.engine.spaces import Action
from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.errors import describe, ends_work, running_task
from agentgym.messages import Message
from agentgym.policy import EndEpisode, Player

PATIENCE = 4
"""A token policy cuts off its turns by itself, and may queue them before; after this many limits it counts as stuck."""


async def asked(question: Any, policy: str) -> Any:
    """Await a policy. Whatever it raises counts as infrastructure, except for the caller's mistakes."""
    task = running_task()
    try:
        return await question
    except (EndEpisode, UsageError, InfrastructureError, TimeoutError):
        raise
    except BaseException as error:
        if ends_work(error, task):
            raise
        raise InfrastructureError(f"policy {policy!r}: {describe(error)}") from error


async def acted(player: Player, observation: list[Message], policy: str) -> Action | None:
    """Return a player's action. Raises `InfrastructureError` if it is none, or not awaited."""
    work: Any = player.act(observation)
    if not inspect.isawaitable(work):
        raise InfrastructureError(f"policy {policy!r}: act() must be `async def`")
    action: Any = await work
    if action is None or isinstance(action, str | Mapping):
        return action
    raise InfrastructureError(
        f"policy {policy!r} acted with a {type(action).__name__}; an action is text, an assistant message, or None to "
        "give up"
    )


def turn_limit_s(generation_s: float | None, left_s: float) -> float | None:
    """Return the seconds that a turn may take: its own limit, or what is left of the episode's if that is less."""
    limit_s = min(generation_s or inf, left_s)
    return None if limit_s == inf else limit_s
