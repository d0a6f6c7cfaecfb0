"""Environments that show what only the grader may know."""

from __future__ import annotations

from typing import Any

from agentgym.engine.steps import Solution, StepResult
from agentgym.errors import ToolError
from agentgym.messages import ToolCall
from agentgym.task import GeneratedTasks, Task
from tests.sound_envs import SPLITS, SoundEnv, boxes_task


class GoldInPrompt(SoundEnv):
    """Tells the rubric at the start."""

    def start(self, task: Task) -> str:
        return f"{super().start(task)} ({task.gold['rubric']})"


class GoldInTaskPrompt(SoundEnv):
    """Its task generator writes the rubric into the prompt."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", leaky_task, SPLITS)


class GoldInToolResult(SoundEnv):
    """A forgotten debugging aid."""

    def see(self, box: str) -> str:
        return f"{super().see(box)} [debug: {self.task.gold['rubric']}]"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": task.gold["content"]})


class GoldInToolError(SoundEnv):
    """Too helpful an error message."""

    def see(self, box: str) -> str:
        if box not in self.task.data["boxes"]:
            raise ToolError(f"No such box. The grader says: {self.task.gold['rubric']}")
        return super().see(box)


class GoldInInfo(SoundEnv):
    """Puts the task's gold into every info."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        result.info["gold"] = dict(self.task.gold)
        return result


def leaky_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return Task(task.id, split, f"{task.prompt} {task.gold['rubric']}", task.difficulty, task.data, task.gold)
