"""Checks of a function that doubles, for tests of how code is graded."""

from __future__ import annotations

from typing import Any

from agentgym.task import Task
from agentgym.tools.sandbox import Ended, Result

GOLD = "def double(x):\n    return 2 * x\n"


def check_of(*lines: str) -> str:
    """Return a check with these lines in its body."""
    return "\n    ".join(["def check(candidate):", *lines]) + "\n"


def check_task(check: str, name: str = "t") -> Task:
    """Return a task that is graded by a check alone."""
    data: dict[str, Any] = {"kind": "function", "entry_point": "double", "prelude": ""}
    return Task(name, "train", "Double it.", data=data, gold={"code": GOLD, "check": check})


def result(exit_code: int = 0) -> Result:
    """Return the result of a run that printed nothing."""
    return Result(stdout=b"", stderr=b"", exit_code=exit_code, ended=Ended.EXITED, duration_s=0.0)
