"""How episodes end. Terminated, truncated and failed are three different facts; each reason belongs to one of them."""

from __future__ import annotations

from enum import StrEnum


class Ending(StrEnum):
    """The kind of ending."""

    TERMINATED = "terminated"
    """The task ended: solved, answered wrongly or given up."""
    TRUNCATED = "truncated"
    """A limit ended it."""
    FAILED = "failed"
    """What surrounds the model broke. Never rewarded, never trained on."""


class Reason(StrEnum):
    """Why an episode ended."""

    SOLVED = "solved"
    ANSWERED = "answered"
    """An answer was given; the reward says how good it was."""
    GAVE_UP = "gave_up"
    MAX_TURNS = "max_turns"
    TOKEN_BUDGET = "token_budget"
    """The policy used up the tokens it may produce in an episode."""
    CONTEXT = "context"
    """The conversation no longer fits the policy's context window."""
    TIME = "time"
    FORMAT_ERRORS = "format_errors"
    """Too many turns in a row in which no action could be read."""
    INFRASTRUCTURE = "infrastructure"
    CANCELLED = "cancelled"

    @property
    def ending(self) -> Ending:
        """The kind of ending this reason is."""
        return _ENDING_OF[self]


_ENDING_OF = {
    Reason.SOLVED: Ending.TERMINATED,
    Reason.ANSWERED: Ending.TERMINATED,
    Reason.GAVE_UP: Ending.TERMINATED,
    Reason.MAX_TURNS: Ending.TRUNCATED,
    Reason.TOKEN_BUDGET: Ending.TRUNCATED,
    Reason.CONTEXT: Ending.TRUNCATED,
    Reason.TIME: Ending.TRUNCATED,
    Reason.FORMAT_ERRORS: Ending.TRUNCATED,
    Reason.INFRASTRUCTURE: Ending.FAILED,
    Reason.CANCELLED: Ending.FAILED,
}
