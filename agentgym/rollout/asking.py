"""Asks policies for turns: turns their exceptions into infrastructure errors and limits the time they take."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping
from math import inf
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.drive import close_unbegun
from agentgym.engine.spaces import Action
from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.apart import apart
from agentgym.foreign.errors import describe, ends_work, running_task
from agentgym.messages import Message, deep_copy
from agentgym.policy import EndEpisode, Player
from agentgym.records.fields import is_number
from agentgym.rollout.limits import Limits

_log = logging.getLogger(__name__)

PATIENCE = 4
"""A token policy counts as stuck after this many time limits: it cuts off its turns itself and may queue them first."""


async def asked(question: Any, policy: str) -> Any:
    """Await a policy. Its exceptions become `InfrastructureError`, except for the caller's mistakes."""
    try:
        return await apart(_answer(question, policy))
    finally:
        if inspect.iscoroutine(question):
            close_unbegun(question)


async def _answer(question: Any, policy: str) -> Any:
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
    """Return a copy of a player's action; the player also sees copies of the messages.

    Raises:
        InfrastructureError: `act` is not `async def` or returns something other than an action.
    """
    work: Any = player.act(deep_copy(observation))
    if not inspect.isawaitable(work):
        raise InfrastructureError(f"policy {policy!r}: act() must be `async def`")
    action: Any = await work
    if action is None:
        return None
    if isinstance(action, str):
        return str.__str__(action)  # subclasses become plain text, which any process can read
    if isinstance(action, Mapping):
        return _as_data(action, policy)
    raise InfrastructureError(
        f"policy {policy!r} acted with a {type(action).__name__}; an action is text, an assistant message, or None to "
        "give up"
    )


def _as_data(message: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return an assistant message as JSON data."""
    try:
        return json.loads(json.dumps(message, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise InfrastructureError(
            f"policy {policy!r} acted with a message that is not JSON data: {describe(error)}"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot write {type(value).__name__!r} as JSON")


def usage_of(player: Player, policy: str) -> dict[str, float]:
    """Return the usage that a player reports. Values that are not numbers are dropped with a warning."""
    try:
        usage = dict(getattr(player, "usage", {}))
    except Exception as error:
        _log.warning("cannot read the usage of policy %s: %s", policy, describe(error))
        return {}
    if wrong := [name for name, used in usage.items() if not is_number(used)]:
        _log.warning("the usage %r of policy %s is left out: it is not a finite number", wrong[0], policy)
    return {name: used for name, used in usage.items() if name not in wrong}


def turn_limit(limits: Limits, left_s: float) -> tuple[float | None, Reason]:
    """Return a token policy's time limit for a turn in seconds, and how the episode ends when it is reached.

    Args:
        limits: Its own limit, if any.
        left_s: Seconds left for the whole episode.
    """
    own_s = limits.generation_timeout_s or inf
    limit_s = min(own_s, max(left_s, 0.0))
    return None if limit_s == inf else limit_s, Reason.GENERATION_TIME if limit_s == own_s else Reason.TIME


def patience_s(limits: Limits, turn_s: float | None) -> float | None:
    """Return the seconds after which a token policy counts as stuck in a turn with a time limit of `turn_s` seconds.

    A busy policy does not count as stuck only because the episode has little time left.
    """
    whole_s = limits.generation_timeout_s or limits.episode_timeout_s
    return None if turn_s is None else PATIENCE * max(turn_s, whole_s or 0)
