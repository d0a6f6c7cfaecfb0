"""From the arguments of `CodeEnv` to tools, limits, a scheme and a task source; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
    given = {name: value for name, value in choices.items() if value is not None}
    if tasks is not None:
        if given:
            raise UsageError(f"tasks=... was given, so {sorted(given)} cannot be chosen too; give one or the other")
        return tasks
    if "file" not in given and "format" not in given:
        return CodeTasks(**given)
    if others := set(given) - {"file", "format"}:
        raise UsageError(f"tasks from a file have no {sorted(others)} to choose")
    return read_tasks(given.get("format"), given.get("file"))


def one_of(name: str, value: Any, valid: tuple[Any, ...]) -> Any:
    """Return `value` if it is among `valid`."""
    if value not in valid:
        raise UsageError(f"{name} must be one of {', '.join(valid)}, not {value!r}")
    return value


def tool_names(wanted: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the tools that `"python+test"` or a list of such parts stands for; `submit` always."""
    parts = wanted.split("+") if isinstance(wanted, str) else list(wanted)
    parts = [part.strip() for part in parts if part.strip()]
    if unknown := [part for part in parts if part not in TOOLS]:
        raise UsageError(f"unknown tools {unknown[0]!r}; choose from {', '.join(TOOLS)}, joined with '+'")
    return (*(name for part, names in TOOLS.items() if part in parts for name in names), "submit")


def run_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Return limits that are given whole, by name, or not at all."""
    if isinstance(limits, Limits):
        return limits
    known = Limits.__dataclass_fields__
    if unknown := set(limits or ()) - set(known):
        raise UsageError(f"unknown limits {sorted(unknown)}; known: {', '.join(known)}")
    return Limits(**(limits or {}))


def with_cost(scheme: Scheme, cost: float) -> Scheme:
    """Return a scheme in which every call costs that much, in solved episodes only, so that giving up never pays."""
    if cost < 0:
        raise UsageError(f"tool_cost is what a call costs, at least 0, not {cost!r}")
    if not cost:
        return scheme
    gate = Gate(on=OUTCOME, at_least=1.0, opens=("tool_cost",))
    return replace(scheme, weights={**scheme.weights, "tool_cost": -cost}, gates=(*scheme.gates, gate))
