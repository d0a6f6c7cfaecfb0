"""The definition of a check: a named promise about environments and a function that verifies it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentgym.check.outcomes import Finding
from agentgym.check.subject import Subject


@dataclass(frozen=True)
class Check:
    """One guarantee."""

    name: str
    promise: str
    """The guarantee that holds if the check passes, in one line."""
    run: Callable[[Subject], Finding]
    causes: tuple[str, ...] = ()
    """Names of earlier checks whose failure explains a failure of this one."""
    jobs: tuple[str, ...] = ()
    """Jobs of fresh processes (`agentgym.check.probe`) whose results the function needs."""


def check(
    name: str, promise: str, causes: tuple[str, ...] = (), jobs: tuple[str, ...] = ()
) -> Callable[[Callable[[Subject], Finding]], Check]:
    """Turn a function into a check.

    The function returns a finding, or raises `CheckFailed`, `CheckWarned` or `CheckSkipped`.
    """

    def wrap(function: Callable[[Subject], Finding]) -> Check:
        return Check(name, promise, function, causes, jobs)

    return wrap
