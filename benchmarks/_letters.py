"""An environment that even a model with random weights can learn: begin each of two messages with a small letter."""

from __future__ import annotations

import random
import time

from agentgym import Env, GeneratedTasks, Reason, Task
from agentgym.core.engine.steps import Solution
from agentgym.core.rewards import OUTCOME, Channel, Scheme


def _task(split: str, index: int) -> Task:
    return Task(f"letters/{split}/{index}", split, f"Begin with a small letter, please ({split} {index}).")


class Letters(Env):
    """Begin each of two messages with a letter from a to z."""

    channels = {OUTCOME: Channel("the share of the messages that did")}
    scheme = Scheme({OUTCOME: 1.0})
    max_turns = 2

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("letters", _task, {"train": None, "test": 50})

    def start(self, task: Task) -> None:
        self.good = self.said = 0

    def respond(self, text: str) -> str:
        self.said += 1
        self.good += text[:1].isascii() and text[:1].islower()
        if self.said == 2:
            self.reward(OUTCOME, self.good / 2)
            self.finish(Reason.ANSWERED)
        return "Again."

    def solution(self, task: Task) -> Solution:
        yield "a"
        yield "b"


class SlowLetters(Letters):
    """The same; every tenth task takes two seconds to begin, the others a tenth of a second."""

    def start(self, task: Task) -> None:
        time.sleep(2.0 if random.Random(task.id).random() < 0.1 else 0.1)
        super().start(task)
