"""The outcomes of a check: it returns a finding, or raises one of these exceptions."""

from __future__ import annotations

import time
from math import comb

Finding = str | None
"""An optional message from a check that passed."""


class CheckFailed(Exception):
    """The promise is broken; the message says what happened, where, and what to do."""


class CheckWarned(Exception):
    """The promise holds, but the message reports something the author should know."""


class CheckSkipped(Exception):
    """The check does not apply to this environment, or cannot run for a reason that another check reported."""


class Blocked(CheckSkipped):
    """The check cannot run, for a reason that another check reports."""

    def __init__(self, message: str, reported_by: str):
        super().__init__(f"{message}; see {reported_by!r}")
        self.reported_by = reported_by


SURE = 0.01
"""Probability below which luck is ruled out."""

ENOUGH = 24
"""Number of tasks to play before a frequent event is attributed to more than luck."""


def is_no_luck(count: int, of: int, limit: float) -> bool:
    """Return whether `count` of `of` cases are too many for an event of probability `limit` to be luck."""
    tail = sum(comb(of, k) * limit**k * (1 - limit) ** (of - k) for k in range(count, of + 1))
    return tail < SURE


_WAITING = 2.5
"""Wall-clock time allowed per second of CPU time: the machine may be busy, or the environment may wait."""


class Patience:
    """A budget of CPU seconds, with a wall-clock limit several times as long.

    Counting CPU time keeps a busy machine from reducing what the checks examine.
    """

    def __init__(self, seconds: float):
        self._computed_until = time.process_time() + seconds
        self._until = time.monotonic() + _WAITING * seconds

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return time.process_time() > self._computed_until or time.monotonic() > self._until
