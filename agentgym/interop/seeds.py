"""Tasks for environments that have seeds instead: each task is one seed, and no seed is in two splits."""

from __future__ import annotations

from functools import partial

from agentgym.task import TEST, TRAIN, VALIDATION, GeneratedTasks, Task

FIRST_SEED = {TRAIN: 0, VALIDATION: 2**30, TEST: 2**31}
"""The first seed of each split. All are far apart, and far below 2**32, where NumPy's seeds end."""


def seed_tasks(name: str, prompt: str) -> GeneratedTasks:
    """Return an endless source of tasks that differ in `data["seed"]` alone.

    Args:
        name: Prefix of the task ids.
        prompt: The prompt of all tasks.
    """
    return GeneratedTasks(name, partial(_task, name, prompt), dict.fromkeys(FIRST_SEED))


def _task(name: str, prompt: str, split: str, index: int) -> Task:
    return Task(f"{name}/{split}/{index}", split, prompt, data={"seed": FIRST_SEED[split] + index})
