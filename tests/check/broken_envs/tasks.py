"""Environments whose tasks change in JSON, or whose task source is wrong."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

from agentgym.base.errors import TaskError
from agentgym.core.task import GeneratedTasks, Task
from tests.check.sound_envs import SPLITS, SoundEnv, boxes_task


class TuplesInTasks(SoundEnv):
    """Has task data that JSON changes."""

    part = "data"

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", partial(tuple_task, cls.part), SPLITS)


def tuple_task(part: str, split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return replace(task, **{part: {**getattr(task, part), "size": (1, 2)}})


class TuplesInGold(TuplesInTasks):
    """Has gold that JSON changes."""

    part = "gold"


class ForgetsIds(SoundEnv):
    """Cannot find its own tasks."""

    @classmethod
    def default_tasks(cls) -> Any:
        return Tasks("finds nothing")


class Tasks(GeneratedTasks):
    """A task source with the fault `wrong`."""

    numbers = itertools.count()

    def __init__(self, wrong: str):
        super().__init__("boxes", boxes_task, SPLITS)
        self.wrong, self.number = wrong, next(self.numbers)

    def get(self, split: str, index: int) -> Task:
        if self.wrong == "takes any split" and split not in self.splits:
            return super().get("train", index)
        if self.wrong == "takes any number":
            return super().get(split, index % 60)
        if self.wrong == "has no end" and index == 60:
            return super().get(split, 0)
        if self.wrong == "looks up" and split not in self.splits:
            raise KeyError(split)
        task = super().get(split, index)
        if self.wrong == "says another split" and split == "test":
            return replace(task, split="train")
        if self.wrong == "repeats an id" and index == 50:
            return replace(task, id=f"boxes/{split}/0")
        if self.wrong == "numbers itself" and index == 39:
            return replace(task, prompt=f"{task.prompt} ({self.number})")
        return task

    def find(self, task_id: str) -> Task:
        if self.wrong == "finds nothing":
            raise TaskError(f"no task {task_id!r}")
        if self.wrong == "finds anything":
            return super().find(task_id if task_id.startswith("boxes/") else "boxes/train/0")
        if self.wrong == "finds the first":
            super().find(task_id)
            return super().find("boxes/train/0")
        return super().find(task_id)


class HasTasks(SoundEnv):
    """Has a task source with a fault."""

    def __init__(self, wrong: str, **kwargs: Any):
        super().__init__(tasks=Tasks(wrong), **kwargs)
