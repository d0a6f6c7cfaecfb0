"""An environment that even a model with random weights can learn: begin each of two messages with a small letter."""

from __future__ import annotations

import time

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import GeneratedTasks, Task


def _task(split: str, index: int) -> Task:
    return Task(f"letters/{split}/{index}", split, f"Say a letter, please ({split} {index}).")


class LettersEnv(Env):
    """Begin each of two messages with a letter from a to z."""

    channels = {OUTCOME: Channel("1 if the last message did"), "letter": Channel("1 if this one did", per_turn=True)}
    # The mean pays a shorter episode more, but all of these have two turns; a capped sum would pay one letter only.
    scheme = Scheme({OUTCOME: 1.0, "letter": 0.3}, averaged=frozenset({"letter"}), allow_unsound=True)
    max_turns = 3

    started: list[str] = []
    """The tasks of all episodes, in no particular order within a step."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("letters", _task, {"train": None, "test": 50})

    def start(self, task: Task) -> None:
        self.said = 0
        self.started.append(task.id)

    def respond(self, text: str) -> str:
        self.said += 1
        good = float(text[:1].isascii() and text[:1].islower())
        self.reward("letter", good)
        if self.said == 2:
            self.reward(OUTCOME, good)
            self.finish(Reason.ANSWERED)
        return "Again."

    def solution(self, task: Task) -> Solution:
        yield "a"
        yield "b"


class WaitingEnv(LettersEnv):
    """Every fifth task takes much longer than the others."""

    def respond(self, text: str) -> str:
        time.sleep(0.3 if int(self.task.id.rpartition("/")[2]) % 5 == 0 else 0.002)
        return super().respond(text)


class BrokenEnv(LettersEnv):
    """Cannot be played."""

    def respond(self, text: str) -> str:
        raise OSError("the disk is full")
