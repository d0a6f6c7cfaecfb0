"""Environments that grade wrongly, or show gold that only the grader may know."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import GeneratedTasks, Task
from tests.check.sound_envs import SPLITS, SoundEnv, boxes_task


class GoldInTaskPrompt(SoundEnv):
    """Its task generator writes the rubric into the prompt."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", leaky_task, SPLITS)


def leaky_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return Task(task.id, split, f"{task.prompt} {task.gold['rubric']}", task.difficulty, task.data, task.gold)


class GoldInInfo(SoundEnv):
    """Puts the task's gold into every info."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        result.info["gold"] = dict(self.task.gold)
        return result


class AcceptsAnEmptyAnswer(SoundEnv):
    """Accepts an empty answer."""

    def take(self, text: str) -> str:
        return super().take(text or self.task.gold["content"])


class FailsToFail(SoundEnv):
    """Returns its solution as a failing attempt."""

    def failing(self, task: Task) -> Solution:
        return self.solution(task)


class WrongSolution(SoundEnv):
    """Its reference policy does not look."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": "copper lantern"})


class StopsEarly(SoundEnv):
    """Has a solution that does the work but does not submit it."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})

    def see(self, box: str) -> str:
        self.reward(OUTCOME, 1.0)
        return super().see(box)


class PaysForNothing(SoundEnv):
    """Counts every episode without an answer as a success."""

    def grade(self) -> dict[str, float]:
        return {} if self.reason is Reason.ANSWERED else {OUTCOME: 1.0}


class PaysForNonsense(SoundEnv):
    """Accepts every answer that does not look like an answer."""

    def grade(self) -> dict[str, float]:
        answered = self.reason is Reason.ANSWERED and "lantern" not in str(self._actions[-1])
        return {OUTCOME: 1.0} if answered else {}


class ChangesItsMind(SoundEnv):
    """Grades an answer differently after several episodes."""

    graded: ClassVar[dict[str, int]] = {}

    def grade(self) -> dict[str, float]:
        times = self.graded[self.task.id] = self.graded.get(self.task.id, 0) + 1
        return {"effort": float(self.reason is Reason.ANSWERED and times > 4)}


class TellsSuccessByChance(SoundEnv):
    """Reports success for every second answer only."""

    answers = itertools.count()

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        if self.reason is not Reason.ANSWERED:
            return result
        return result._replace(info={**result.info, "is_success": bool(next(self.answers) % 2)})
