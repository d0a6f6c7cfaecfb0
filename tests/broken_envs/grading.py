"""Environments that take wrong for right, or the other way round."""

from __future__ import annotations

import os

from agentgym.endings import Reason
from agentgym.engine.steps import Solution
from agentgym.messages import ToolCall
from agentgym.rewards import OUTCOME
from agentgym.task import Task
from agentgym.toolset import tool
from tests.sound_envs import SoundEnv


class AcceptsAnEmptyAnswer(SoundEnv):
    """Takes no answer at all for a right one."""

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: What is in the box.
        """
        return super().answer(text or self.task.gold["content"])


class FailsToFail(SoundEnv):
    """Calls its solution an attempt that fails."""

    def failing(self, task: Task) -> Solution:
        return self.solution(task)


class WrongSolution(SoundEnv):
    """Its reference policy does not look."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": "copper lantern"})


class PaysForNothing(SoundEnv):
    """Takes the absence of a wrong answer for a right one."""

    def grade(self) -> dict[str, float]:
        return {} if self.reason is Reason.ANSWERED else {OUTCOME: 1.0}


class PaysForAnything(SoundEnv):
    """Takes any answer for a right one."""

    def grade(self) -> dict[str, float]:
        return {OUTCOME: 1.0} if self.reason is Reason.ANSWERED else {}


class PaysForNonsense(SoundEnv):
    """Takes every answer for right that is not wrong in an expected way."""

    def grade(self) -> dict[str, float]:
        answered = self.reason is Reason.ANSWERED and "lantern" not in str(self._actions[-1])
        return {OUTCOME: 1.0} if answered else {}


class GradesByChance(SoundEnv):
    """Throws a die where a judge should be."""

    def grade(self) -> dict[str, float]:
        return {"effort": os.urandom(1)[0] / 255}
