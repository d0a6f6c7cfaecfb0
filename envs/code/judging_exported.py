"""Judges an exported task of the code environment, where nothing but Python is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentgym.base.errors import ToolError
from agentgym.core.task import Task
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.grading import CodeGrader
from agentgym.tasks.exporting.inside.answers import read_answer
from agentgym.tools.sandbox import Sandbox, SandboxLimits

_CALL_S = 4.0
_MAX_BYTES = 1_000_000


def prepare(task: Task, settings: Mapping[str, Any], folder: Path) -> Callable[[Path], Mapping[str, float]]:
    """Return the function that grades the answer in a folder."""
    # At run time, a local stand-in replaces the class that type checkers see.
    grader = CodeGrader(Sandbox, SandboxLimits(), _CALL_S)  # pyright: ignore[reportArgumentType]
    return lambda root: _judged(grader, task, read_answer(root, settings["answer"], _MAX_BYTES))


def _judged(grader: CodeGrader, task: Task, answer: str) -> Mapping[str, float]:
    rewards = {"reward": 0.0}
    if answer.strip() and task.data["kind"] in ("function", "fix"):
        submission = Submission(answer, task.data["entry_point"], task.data.get("prelude", ""))
        verdict = grader.function(task, submission)
        rewards = {"reward": float(verdict.solved), "hidden": verdict.hidden, "visible": verdict.visible}
    elif answer.strip():
        with suppress(ToolError):  # the answer is too long for a value
            rewards = {"reward": float(grader.value(task, answer).solved)}
    return rewards
