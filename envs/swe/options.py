"""Turns the arguments of `SWEEnv` into a task source and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.choices import limits_from, one_of
from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.task_files.declaring import Layout, TaskFiles
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.refactor import RefactorTasks
from agentgym.tools.sandbox import SandboxLimits

WORK_LIMITS = SandboxLimits(wall_s=60.0, cpu_s=60.0, memory_mb=2048, total_memory_mb=3072)
"""Bounds on one run by an agent."""


_BUNDLED = {"bugs": BundledSWETasks, "refactor": RefactorTasks}


FILES = TaskFiles(
    argument="file",
    loader="agentgym.envs.swe.source:InstanceTasks",
    options={
        "format": "name of the format, such as swe-bench; detected from the fields of the rows if not given",
        "repositories": "folder of archives or checkouts to take the files from, instead of images",
        "environments": "folder of Python environments to run the tests in, or one environment for all",
        "split_by": "auto (the split named by the row or the file, else train), or one split: train, validation, test",
    },
    layouts=(
        Layout("SWE-bench", "rows as Parquet or JSON (Lite, Verified, Multilingual), with Docker", "file=test.parquet"),
        Layout(
            "SWE-bench",
            "the same without Docker: repositories and Python environments of your own",
            "file=test.parquet --set repositories=REPOS --set environments=ENVS",
        ),
        Layout("SWE-Gym", "rows, also of SWE-rebench, SWE-smith, R2E-Gym and Multi-SWE-bench", "file=rows.jsonl"),
        Layout("your own", "what `agentgym tasks build swe` writes", "file=DIR/instances.jsonl"),
    ),
    generated=frozenset({"kind"}),
)


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, the instances of the files that `choices` name, or bundled tasks of a kind."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return _BUNDLED[one_of("kind", choices["kind"] or "bugs", tuple(_BUNDLED))]()


def run_limits(limits: SandboxLimits | Mapping[str, Any] | None) -> SandboxLimits:
    """Return limits from a `SandboxLimits`, from its fields by name, or the default ones."""
    return WORK_LIMITS.but(**limits_from(SandboxLimits, limits))


def above_zero(name: str, value: float) -> float:
    """Return `value` if it is more than 0."""
    if not value > 0:
        raise UsageError(f"{name} must be above 0, not {value!r}")
    return value
