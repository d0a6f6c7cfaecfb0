"""Environments in which an answer carries a confidence can show how well it is calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from agentgym.calibration import calibration
from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.evaluation import evaluate
from agentgym.policy import FunctionPolicy
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.rollout import EnvFactory
from agentgym.task import GeneratedTasks, Task
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory, Turn


class Sure(Env):
    """Say a number, and how sure you are of it."""

    channels = {OUTCOME: Channel("1 if the number is right")}
    scheme = Scheme(weights={OUTCOME: 1.0})

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        def make(split: str, index: int) -> Task:
            return Task(f"sure/{index}", split, f"Which number is it? {index}", gold={"number": index % 2})

        return GeneratedTasks("sure", make, {"test": 10})

    def start(self, task: Task) -> None:
        self._confidence: float | None = None

    @tool
    def answer(self, number: int, confidence: float) -> str:
        """Answer.

        Args:
            number: The number.
            confidence: How likely it is right, from 0 to 1.
        """
        self._confidence = confidence
        self.reward(OUTCOME, float(number == self.task.gold["number"]))
        self.finish(Reason.ANSWERED)
        return "Noted."

    def details(self) -> dict[str, Any]:
        return {} if self._confidence is None else {"confidence": self._confidence}

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        return calibration(trajectories)


def test_an_evaluation_shows_how_well_stated_confidences_agree_with_success():
    """Of ten answers at 0.9, five are right: the gap is 0.4, and the squared gaps are 0.01 and 0.81."""
    answer = '<tool_call>{"name": "answer", "arguments": {"number": 1, "confidence": 0.9}}</tool_call>'
    tasks = [Sure.default_tasks().get("test", index) for index in range(10)]
    factory = EnvFactory(f"{__name__}:Sure", {})
    figures = evaluate(factory, FunctionPolicy("sure", lambda observation: answer), tasks).figures
    assert figures == pytest.approx({"confidence": 0.9, "calibration error": 0.4, "Brier score": 0.41})


def episode(confidence: Any, solved: bool) -> Trajectory:
    details = {} if confidence is None else {"confidence": confidence}
    turns = [Turn("", [], {OUTCOME: float(solved)}, 0.0)]
    return Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns, details=details, reason=Reason.ANSWERED)


def test_answers_without_a_usable_confidence_do_not_count():
    stated = [episode(1.0, True), episode(0.0, False)]
    unstated = [episode(value, False) for value in (None, "high", 1.2, -1, True, float("nan"))]
    assert calibration([*stated, *unstated]) == calibration(stated)
    assert calibration(stated) == {"confidence": 0.5, "calibration error": 0.0, "Brier score": 0.0}
    assert calibration(unstated) == {}
