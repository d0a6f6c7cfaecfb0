"""Environments whose tasks overlap, change in JSON, or are not found again."""

from __future__ import annotations

from typing import Any

from agentgym.errors import TaskError
from agentgym.task import GeneratedTasks, Task
from tests.sound_envs import SPLITS, SoundEnv, boxes_task


class OverlappingSplits(SoundEnv):
    """Tests on what was trained on."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", overlapping_task, SPLITS)


class TuplesInTasks(SoundEnv):
    """Has task data that JSON changes."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", tuple_task, SPLITS)


class ForgetsIds(SoundEnv):
    """Cannot find its own tasks."""

    @classmethod
    def default_tasks(cls) -> Any:
        return ForgetfulTasks("boxes", boxes_task, SPLITS)


class ForgetfulTasks(GeneratedTasks):
    """A task source that finds nothing."""

    def find(self, task_id: str) -> Task:
        raise TaskError(f"no task {task_id!r}")


def overlapping_task(split: str, index: int) -> Task:
    task = boxes_task("any", index)
    return Task(f"boxes/{split}/{index}", split, task.prompt, task.difficulty, task.data, task.gold, tags=(split,))


def tuple_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return Task(task.id, split, task.prompt, task.difficulty, {**task.data, "size": (1, 2)}, task.gold)
