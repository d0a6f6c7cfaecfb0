"""A small environment whose tools can be made to break, and helpers to play it."""

from __future__ import annotations

import asyncio
from typing import Any

from agentgym.base.errors import InfrastructureError, ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from agentgym.rollout import Group


def counter_task(split: str, index: int) -> Task:
    return Task(f"counter/{split}/{index}", split, f"Count to {index % 5 + 1}.", gold={"goal": index % 5 + 1})


class Counter(Env):
    """Count up to a number, then say so."""

    channels = {
        OUTCOME: Channel("1 if the count was right"),
        "format": Channel("1 if the action could be read", per_turn=True),
        "final": Channel("the count at the end, as a share of the goal"),
    }
    scheme = Scheme(weights={OUTCOME: 1.0})
    max_turns = 8
    released = 0

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("counter", counter_task, {"train": None, "test": 3})

    def start(self, task: Task) -> None:
        self.count = 0

    @tool
    def add(self, number: int) -> str:
        """Add to the count.

        Args:
            number: How much.
        """
        if number < 0:
            raise ToolError("Only upwards.")
        if number == 13:
            raise ZeroDivisionError("broken inside")
        if number == 14:
            raise InfrastructureError("the server is gone")
        self.count += number
        return f"count {self.count}"

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self.reward(OUTCOME, float(self.count == self.task.gold["goal"]))
        self.finish(Reason.ANSWERED)
        return "noted"

    def grade(self) -> dict[str, float]:
        return {"final": min(1.0, self.count / self.task.gold["goal"])}

    def solution(self, task: Task) -> Solution:
        yield ToolCall("add", {"number": task.gold["goal"]})
        yield ToolCall("done")

    def release(self) -> None:
        self.released += 1


class AsyncCounter(Counter):
    """The same, with a tool that waits."""

    @tool
    async def add(self, number: int) -> str:
        """Add to the count.

        Args:
            number: How much.
        """
        await asyncio.sleep(0)
        self.count += number
        return f"count {self.count}"


def groups(count: int, size: int = 1) -> list[Group]:
    """Groups for the first tasks of `Counter`."""
    source = Counter.default_tasks()
    return [Group(source.get("train", index), index, size) for index in range(count)]


def call(name: str, **arguments: Any) -> Any:
    return assistant("", [ToolCall(name, arguments)])


def started(kind: type[Env] = Counter, **kwargs: Any) -> Any:
    env = kind(**kwargs)
    env.reset(seed=1, options={"split": "test", "index": 2})
    return env
