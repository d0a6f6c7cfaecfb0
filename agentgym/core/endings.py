"""How episodes end: terminated, truncated or failed. Every reason belongs to one of these three kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from agentgym.base.errors import UsageError


class Ending(StrEnum):
    """The kind of ending."""

    TERMINATED = "terminated"
    """The task ended: solved, answered wrongly or given up."""
    TRUNCATED = "truncated"
    """A limit was reached."""
    FAILED = "failed"
    """The task or the script is broken, or something around the model broke. Never rewarded, never trained on."""


class Reason(StrEnum):
    """Why an episode ended."""

    SOLVED = "solved"
    ANSWERED = "answered"
    """The policy gave an answer; the reward says how good it was."""
    GAVE_UP = "gave_up"
    MAX_TURNS = "max_turns"
    TOKEN_BUDGET = "token_budget"
    """The policy used up its token budget for the episode."""
    CONTEXT = "context"
    """The conversation no longer fits the policy's context window."""
    TIME = "time"
    """The episode reached its time limit."""
    GENERATION_TIME = "generation_time"
    """The policy exceeded the time limit of one turn."""
    FORMAT_ERRORS = "format_errors"
    """Too many consecutive turns had no readable action."""
    INFRASTRUCTURE = "infrastructure"
    RESET_TIME = "reset_time"
    """The environment could not be made or reset in time."""
    STEP_TIME = "step_time"
    """The environment did not answer a turn in time."""
    TOOL_TIME = "tool_time"
    """A tool did not return in time."""
    BROKEN_TASK = "broken_task"
    """The task cannot be graded: its own gold fails, or something it needs is missing."""
    SCRIPT_FAILED = "script_failed"
    """The scripted player raised an error or could not continue."""
    CANCELLED = "cancelled"

    @property
    def ending(self) -> Ending:
        """The kind of ending that this reason belongs to."""
        return _ENDING_OF[self]


_ENDING_OF = {
    Reason.SOLVED: Ending.TERMINATED,
    Reason.ANSWERED: Ending.TERMINATED,
    Reason.GAVE_UP: Ending.TERMINATED,
    Reason.MAX_TURNS: Ending.TRUNCATED,
    Reason.TOKEN_BUDGET: Ending.TRUNCATED,
    Reason.CONTEXT: Ending.TRUNCATED,
    Reason.TIME: Ending.TRUNCATED,
    Reason.GENERATION_TIME: Ending.TRUNCATED,
    Reason.FORMAT_ERRORS: Ending.TRUNCATED,
    Reason.INFRASTRUCTURE: Ending.FAILED,
    Reason.RESET_TIME: Ending.FAILED,
    Reason.STEP_TIME: Ending.FAILED,
    Reason.TOOL_TIME: Ending.FAILED,
    Reason.BROKEN_TASK: Ending.FAILED,
    Reason.SCRIPT_FAILED: Ending.FAILED,
    Reason.CANCELLED: Ending.FAILED,
}


class OwnReason(str):
    """A reason for an ending that an environment defines itself (`Env.reasons`). Used like a `Reason`."""

    __slots__ = ("ending",)

    ending: Ending
    """The kind of ending that this reason belongs to."""

    def __new__(cls, name: str, ending: Ending) -> OwnReason:
        """Return a reason with a name and a kind."""
        reason = super().__new__(cls, name)
        reason.ending = ending
        return reason

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnReason, (str(self), self.ending)

    @property
    def value(self) -> str:
        """The name, as plain text."""
        return str(self)


AnyReason = Reason | OwnReason

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def own_reasons(endings: Mapping[str, Ending]) -> dict[str, OwnReason]:
    """Return the reasons that an environment defines, by name.

    Args:
        endings: Maps names to kinds of ending, each terminated or truncated.

    Raises:
        UsageError: A name already exists or is invalid, or the kind is not terminated or truncated.
    """
    for name, ending in endings.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"the reason {name!r} must be up to 64 of a-z 0-9 _ and begin with a letter")
        if name in frozenset(Reason):
            raise UsageError(f"the reason {name!r} already exists: Reason.{name.upper()}")
        if ending not in (Ending.TERMINATED, Ending.TRUNCATED):
            raise UsageError(f"the reason {name!r} must be Ending.TERMINATED or Ending.TRUNCATED, not {ending!r}")
    return {name: OwnReason(name, Ending(ending)) for name, ending in endings.items()}


def reason_from(data: Any) -> AnyReason:
    """Return a reason from the output of `reason_data`. Raises `ValueError` for any other data."""
    if isinstance(data, Mapping):
        if set(data) != {"name", "ending"} or not isinstance(data["name"], str):
            raise ValueError(f"not a reason: {data!r}")
        return OwnReason(data["name"], Ending(data["ending"]))
    return Reason(data)


def reason_data(reason: AnyReason) -> Any:
    """Return a reason as JSON data: its name, plus the kind of ending if an environment defined it."""
    return reason.value if isinstance(reason, Reason) else {"name": reason.value, "ending": reason.ending.value}
