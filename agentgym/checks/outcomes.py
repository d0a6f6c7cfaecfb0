"""The outcomes of a check: it returns a finding, or raises one of these exceptions."""

from __future__ import annotations

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
