"""From the arguments of `SWEEnv` to a task source and limits; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.choices import limits_from, one_of
from agentgym.envs.swe.source import InstanceTasks
from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.refactor import RefactorTasks
from agentgym.tools.sandbox import Limits

WORK_LIMITS = Limits(wall_s=60.0, cpu_s=60.0, memory_mb=2048, total_memory_mb=3072)
"""Bounds on one run of an agent's."""


_BUNDLED = {"bugs": BundledSWETasks, "refactor": RefactorTasks}


def task_source(tasks: TaskSource | None, file: str | Path | None, kind: str | None) -> TaskSource:
    """Return `tasks`, the instances of a file, or bundled tasks of a kind."""
    given = {name: value for name, value in (("tasks", tasks), ("file", file), ("kind", kind)) if value is not None}
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'{name}=...' for name in given)} cannot be chosen together; give one of them")
    if tasks is not None:
        return tasks
    if file is not None:
        return InstanceTasks(file)
    return _BUNDLED[one_of("kind", kind or "bugs", tuple(_BUNDLED))]()


def run_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Return limits that are given whole, by name, or not at all."""
    return WORK_LIMITS.but(**limits_from(Limits, limits))


def above_zero(name: str, value: float) -> float:
    """Return `value` if it is more than 0."""
    if not value > 0:
        raise UsageError(f"{name} must be above 0, not {value!r}")
    return value
