"""Environments and policies of the benchmarks of the rollout engine: they do nothing, or only wait.

A module of its own, because worker processes import it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.messages import Message, ToolCall, assistant
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.rollout import Group
from agentgym.seat import Seat
from agentgym.task import GeneratedTasks, Task
from agentgym.toolset import tool

GO = assistant("", [ToolCall("go", {}, "call_1")])


def _task(split: str, index: int) -> Task:
    return Task(f"idle/{split}/{index}", split, "Go.", gold={})


class Idle(Env):
    """Does nothing for a number of turns.

    Args:
        turns: Turns of an episode.
    """

    channels = {OUTCOME: Channel("1 at the end")}
    scheme = Scheme(weights={OUTCOME: 1.0})
    max_turns = 10**9

    def __init__(self, turns: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        self._of = turns

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("idle", _task, {"train": None})

    def start(self, task: Task) -> None:
        self._left = self._of

    @tool
    def go(self) -> str:
        """Take a turn."""
        self._left -= 1
        if not self._left:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.ANSWERED)
        return "ok"

    def solution(self, task: Task) -> Solution:
        for _ in range(self._of):
            yield ToolCall("go")


class Busy(Idle):
    """Blocks for a while each turn; some tasks hang.

    Args:
        seconds: How long each turn takes.
        hang_every: Every so many tasks one hangs; 0 for none.
        hang_s: How long a hanging one takes.
    """

    def __init__(self, seconds: float, hang_every: int = 0, hang_s: float = 3600.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._seconds, self._hang_every, self._hang_s = seconds, hang_every, hang_s

    @tool
    def go(self) -> str:
        """Take a turn that takes a while."""
        index = int(self.task.id.rpartition("/")[2])
        hangs = self._hang_every and index % self._hang_every == 0
        time.sleep(self._hang_s if hangs else self._seconds)
        return super().go()


class Together:
    """A chat policy whose episodes wait for each other after their resets, and then all take their turns.

    Args:
        episodes: How many wait for each other.
        then: Called when the last one has arrived.
    """

    name = "together"

    def __init__(self, episodes: int, then: Any):
        self._missing, self._then = episodes, then
        self._all_are_here = asyncio.Event()

    def player(self, seat: Seat) -> Together:
        return self

    async def act(self, observation: list[Message]) -> Message:
        if self._missing:
            self._missing -= 1
            if not self._missing:
                self._then()
                self._all_are_here.set()
            await self._all_are_here.wait()
        return GO


def work(episodes: int) -> list[Group]:
    """Return groups of one episode each."""
    source = Idle.default_tasks()
    return [Group(source.get("train", index), index) for index in range(episodes)]
