"""Reads the requests of a gateway's owner: what a session is about, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agentgym.endings import Reason, reason_from
from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.gateway.session import GatewaySession, Played
from agentgym.trajectory import Trajectory

_PLAYED = TypeAdapter(Played)
_NAMES = ("env_id", "task_id", "seed", "training_step")


class _Ending(BaseModel):
    """How a session ends."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    reward: float
    channels: dict[str, float] | None = None
    reason: str = Reason.ANSWERED.value
    error: str | None = None


def played(given: Mapping[str, Any]) -> Played:
    """Return what a session is about. Raises `UsageError` if it cannot be read."""
    if unknown := sorted(set(given) - set(_NAMES)):
        raise UsageError(f"a session has no {unknown[0]!r}; it has: {', '.join(_NAMES)}")
    try:
        return _PLAYED.validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise UsageError(f"a session cannot be opened: {_first(error)}") from None


def end(session: GatewaySession, given: Mapping[str, Any]) -> None:
    """End a session as its owner says. Raises `UsageError` if that cannot be read."""
    if (record := given.get("record")) is not None:
        session.end(_record(record))
    elif given.get("error") is not None and "reward" not in given:
        session.fail(str(given["error"]))
    else:
        _pay(session, given)


def _pay(session: GatewaySession, given: Mapping[str, Any]) -> None:
    try:
        ending = _Ending.model_validate(dict(given))
        reason = reason_from(ending.reason)
    except (ValidationError, ValueError) as error:
        why = _first(error) if isinstance(error, ValidationError) else error
        raise UsageError(f"a reward is {{'reward': 1.0}}, with 'channels' and a 'reason' if you like: {why}") from None
    session.reward(ending.reward, channels=ending.channels, reason=reason, error=ending.error)


def _record(given: Any) -> Trajectory:
    try:
        return Trajectory.from_dict(given)
    except Exception as error:
        raise UsageError(f"the record is no trajectory: {describe(error)}") from error


def _first(error: ValidationError) -> str:
    """Return the first of what is wrong, and where."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
