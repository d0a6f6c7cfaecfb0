"""Asking a policy: what it may raise, and how long it may take."""

from __future__ import annotations

from math import inf
from typing import Any

from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.errors import describe, ends_work, running_task
from agentgym.policy import EndEpisode

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


def turn_limit_s(generation_s: float | None, left_s: float) -> float | None:
    """Return the seconds that a turn may take: its own limit, or what is left of the episode's if that is less."""
    limit_s = min(generation_s or inf, left_s)
    return None if limit_s == inf else limit_s
