"""Tasks to write a function, checks of one that doubles, and results of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.core.task import Task
from agentgym.tools.sandbox import Ended, Result

GOLD = "def double(x):\n    return 2 * x\n"


def check_of(*lines: str) -> str:
    """Return a check with these lines in its body."""
    return "\n    ".join(["def check(candidate):", *lines]) + "\n"


def cases_of(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """Return test cases, given the literals of arguments and results."""
    return [{"args": args, "expect": expect} for args, expect in pairs]


def function_task(gold: Mapping[str, Any], entry_point: str = "double", name: str = "t", **data: Any) -> Task:
    """Return a task to write a function."""
    data = {"kind": "function", "entry_point": entry_point, "prelude": "", "examples": [], **data}
    return Task(name, "train", f"Write {entry_point}.", data=data, gold=dict(gold))


def check_task(check: str, name: str = "t") -> Task:
    """Return a task that is graded by a check alone."""
    return function_task({"code": GOLD, "check": check}, name=name)


def result(exit_code: int = 0) -> Result:
    """Return the result of a run that printed nothing."""
    return Result(stdout=b"", stderr=b"", exit_code=exit_code, ended=Ended.EXITED, duration_s=0.0)
