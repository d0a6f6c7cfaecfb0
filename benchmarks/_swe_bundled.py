"""The bundled SWE tasks that the benchmarks of grading use."""

from __future__ import annotations

from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.envs.swe.source import repository_of
from agentgym.task import Task, iterate
from agentgym.tasks.swe.bundled import BundledSWETasks

SPLITS = ("train", "test")
LIMITS = WORK_LIMITS.but(wall_s=120.0, cpu_s=120.0)


def tasks() -> list[Task]:
    """Return the tasks in a fixed order."""
    source = BundledSWETasks()
    return [task for split in SPLITS for task in iterate(source, split)]


def repository(task: Task, sandboxes: Sandboxes) -> Repository:
    """Return a task's repository."""
    return repository_of(BundledSWETasks(), task, sandboxes)
