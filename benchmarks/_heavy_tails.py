"""The workload of `ahead_speedup`: episodes of three turns whose tool is quick, but very slow for a few tasks."""

from __future__ import annotations

import os
import random
import time

from agentgym import Env, GeneratedTasks, Reason, Task
from agentgym.core.engine.steps import Solution
from agentgym.core.rewards import OUTCOME, Channel, Scheme

TURNS, QUICK_S, SLOW_SHARE = 3, 0.05, 0.2


def _task(split: str, index: int) -> Task:
    return Task(f"tails/{split}/{index}", split, f"Name three places, one in each message. This is number {index}.")


def is_slow(task: Task) -> bool:
    return task.split == "train" and random.Random(task.id).random() < SLOW_SHARE


class HeavyTails(Env):
    """Name three places. An answer takes 50 ms, but in one of five tasks the second one takes `SLOW_S` seconds."""

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
        time.sleep(float(os.environ["SLOW_S"]) if self.turn == 2 and is_slow(self.task) else QUICK_S)
        if self.turn == TURNS:
            self.reward(OUTCOME, float(len(text) % 2))
            self.finish(Reason.ANSWERED)
        return "The next one, please."

    def solution(self, task: Task) -> Solution:
        yield "Paris"
        yield "Rome"
        yield "Oslo!"
