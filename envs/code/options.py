"""From the arguments of `CodeEnv` to tools, limits, a scheme and a task source; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym.choices import given_apart_from, limits_from
from agentgym.errors import UsageError
from agentgym.rewards import OUTCOME, Gate, Scheme
from agentgym.task import TaskSource
from agentgym.tasks.code import CodeTasks
from agentgym.tasks.code_files import read_tasks
from agentgym.tools.sandbox import Limits

TOOLS = {
    "python": ("python",),
    "bash": ("bash",),
    "files": ("view", "edit", "write"),
    "test": ("test",),
}
"""What may be asked for, and the tools that it stands for."""


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, or the source that `choices` (a file and its format, or arguments of `CodeTasks`) describe."""
    given = given_apart_from(tasks, choices)
    if tasks is not None:
        return tasks
    if "file" not in given and "format" not in given:
        return CodeTasks(**given)
    if others := set(given) - {"file", "format"}:
        raise UsageError(f"tasks from a file have no {sorted(others)} to choose")
    return read_tasks(given.get("format"), given.get("file"))


def tool_names(wanted: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the tools that `"python+test"` or a list of such parts stands for; `submit` always."""
    parts = wanted.split("+") if isinstance(wanted, str) else list(wanted)
    parts = [part.strip() for part in parts if part.strip()]
    if unknown := [part for part in parts if part not in TOOLS]:
        raise UsageError(f"unknown tools {unknown[0]!r}; choose from {', '.join(TOOLS)}, joined with '+'")
    return (*(name for part, names in TOOLS.items() if part in parts for name in names), "submit")


def run_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Return limits that are given whole, by name, or not at all."""
    return Limits(**limits_from(Limits, limits))


def with_cost(scheme: Scheme, cost: float) -> Scheme:
    """Return a scheme in which every call costs that much, in solved episodes only, so that giving up never pays."""
    if cost < 0:
        raise UsageError(f"tool_cost is what a call costs, at least 0, not {cost!r}")
    if not cost:
        return scheme
    gate = Gate(on=OUTCOME, at_least=1.0, opens=("tool_cost",))
    return replace(scheme, weights={**scheme.weights, "tool_cost": -cost}, gates=(*scheme.gates, gate))
