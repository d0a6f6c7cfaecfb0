"""The environment and the policy of `resume_200k.py`: short episodes, in which next to nothing is computed.

A module of its own, because the processes that are measured import it by name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from statistics import fmean

from agentgym.endings import Reason
from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.messages import Message, ToolCall, assistant, text_of
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.seat import Seat
from agentgym.task import GeneratedTasks, Task
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory

DOORS = 5


def _task(split: str, index: int) -> Task:
    door = index % DOORS + 1
    prompt = f"House {index}. They say that it is behind door {door}. Open a door."
    tags = ("left" if door <= DOORS // 2 else "right", f"door-{door}")
    return Task(f"doors/{split}/{index}", split, prompt, gold={"door": door}, difficulty=door, tags=tags)


class Doors(Env):
    """Open one of five doors."""

    channels = {OUTCOME: Channel("1 for the right door"), "near": Channel("1 for that door or one beside it")}
    scheme = Scheme(weights={OUTCOME: 1.0})
    max_turns = 2

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("doors", _task, {"test": None})

    @tool
    def open(self, door: int) -> str:
        """Open a door.

        Args:
            door: Its number.
        """
        off = abs(door - self.task.gold["door"])
        self.reward(OUTCOME, float(off == 0))
        self.reward("near", float(off <= 1))
        self.finish(Reason.ANSWERED)
        return "It is open."

    def solution(self, task: Task) -> Solution:
        yield ToolCall("open", {"door": task.gold["door"]})

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return a metric for which every trajectory is read."""
        return {"messages": fmean(len(one.messages) for one in trajectories)}


class Listener:
    """A chat policy that mostly opens the door that it is told."""

    name = "listener"

    def player(self, seat: Seat) -> _Listening:
        return _Listening(random.Random(seat.seed))


class _Listening:
    def __init__(self, draw: random.Random):
        self._draw = draw

    async def act(self, observation: list[Message]) -> Message:
        told = re.search(r"door (\d)", text_of(observation[-1]))
        door = int(told[1]) if told and self._draw.random() < 0.6 else self._draw.randint(1, DOORS)
        return assistant("", [ToolCall("open", {"door": door}, "call_1")])
