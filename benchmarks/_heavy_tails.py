"""The workload of `ahead_speedup`: episodes of three turns whose tool is quick, but very slow now and then."""

from __future__ import annotations

import os
import random
import time

from agentgym import Env, GeneratedTasks, Reason, Task
from agentgym.core.engine.steps import Solution
from agentgym.core.rewards import OUTCOME, Channel, Scheme

TURNS, QUICK_S, SLOW_SHARE = 3, 0.05, 0.02
SLOW_S = float(os.environ.get("SLOW_S", "40"))


def _task(split: str, index: int) -> Task:
    return Task(f"tails/{split}/{index}", split, f"Name three places, one in each message. This is number {index}.")


class HeavyTails(Env):
    """Name a place; the answer takes a moment, or in one of fifty turns very long."""

    channels = {OUTCOME: Channel("1 if the last message has an odd length")}
    scheme = Scheme({OUTCOME: 1.0})
    max_turns = TURNS

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("tails", _task, {"train": None, "test": 10})

    def start(self, task: Task) -> None:
        self.turn = 0

    def respond(self, text: str) -> str:
        self.turn += 1
        dice = random.Random(f"{self.task.id}/{self.turn}/{text}")
        time.sleep(SLOW_S if dice.random() < SLOW_SHARE and self.task.split == "train" else QUICK_S)
        if self.turn == TURNS:
            self.reward(OUTCOME, float(len(text) % 2))
            self.finish(Reason.ANSWERED)
        return "The next one, please."

    def solution(self, task: Task) -> Solution:
        yield "Paris"
        yield "Rome"
        yield "Oslo!"
