"""What a check is: a named promise about environments, and a function that finds out whether it is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentgym.checks.subject import Subject

Finding = str | None
"""What a check that passed has to tell, if anything."""


class CheckFailed(Exception):
    """The promise is broken; the message says what happened, where, and what to do."""


class CheckWarned(Exception):
    """Nothing is broken, but the message says what the author should know."""


class CheckSkipped(Exception):
    """The check does not apply to this environment, or another check has already said why it cannot run."""


class Blocked(CheckSkipped):
    """The check cannot run, for a reason that another check is there to tell."""

    def __init__(self, message: str, told_by: str):
        super().__init__(f"{message}; see {told_by!r}")
        self.told_by = told_by


@dataclass(frozen=True)
class Check:
    """One guarantee."""

    name: str
    promise: str
    """One line: what holds if this passes."""
    run: Callable[[Subject], Finding]
    causes: tuple[str, ...] = ()
    """Names of earlier checks. If one of them fails, that explains why this one fails too."""


def check(name: str, promise: str, causes: tuple[str, ...] = ()) -> Callable[[Callable[[Subject], Finding]], Check]:
    """Make a function a check.

    The function returns a finding, or raises `CheckFailed`, `CheckWarned` or `CheckSkipped`.
    """

    def wrap(function: Callable[[Subject], Finding]) -> Check:
        return Check(name, promise, function, causes)

    return wrap
