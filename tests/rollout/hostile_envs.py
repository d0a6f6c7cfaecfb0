"""Environments and a policy that raise unusual exceptions according to a plan."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.core.policy import Generation
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from tests.counter_env import Counter
from tests.rollout_cases import END, Letters


class Stop(BaseException):
    """An unknown `BaseException`."""


class Unreadable(Exception):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise SystemExit("str")

    __repr__ = __str__


def _raise(error: BaseException) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


def _recurse() -> Any:
    return _recurse()


async def _cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _exit_in_a_task() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.gather(leave(), leave(), asyncio.sleep(0))


async def _interrupt_in_a_group() -> None:
    async def leave() -> None:
        raise KeyboardInterrupt

    async with asyncio.TaskGroup() as group:
        group.create_task(leave())
        group.create_task(asyncio.sleep(3600))


KINDS: Mapping[str, Callable[[], Any]] = {
    "SystemExit": _raise(SystemExit(7)),
    "GeneratorExit": _raise(GeneratorExit()),
    "CancelledError": _raise(asyncio.CancelledError("mine")),
    "KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "BaseException": _raise(Stop("stop")),
    "BaseExceptionGroup": _raise(BaseExceptionGroup("both", [SystemExit(1), GeneratorExit()])),
    "StopIteration": _raise(StopIteration(1)),
    "StopAsyncIteration": _raise(StopAsyncIteration(1)),
    "RecursionError": _recurse,
    "MemoryError": _raise(MemoryError()),
    "TimeoutError": _raise(TimeoutError()),
    "unreadable": _raise(Unreadable()),
    "unpicklable": _raise(ValueError(lambda: None)),
}
TASK_KINDS: Mapping[str, Callable[[], Any]] = {
    "cancels its own task": _cancel_own_task,
    "exits in a task that it started": _exit_in_a_task,
    "interrupts in a group that it started": _interrupt_in_a_group,
}
"""Failures that only code on the event loop can cause."""

FAILING = ("start", "tool", "respond", "grade", "details", "solution")
"""Places where an exception fails the episode."""
PLACES = (*FAILING, "release")


@dataclass(frozen=True)
class Plan:
    """Maps each task to a place and kind of failure, drawn from the task's id."""

    kinds: Mapping[str, Callable[[], Any]]
    places: tuple[str, ...] = PLACES
    share: float = 0.7

    def of(self, task_id: str) -> tuple[str, str] | None:
        """Return the place and the kind of a task's failure, if it has one."""
        draw = random.Random(task_id)
        trouble = draw.choice(self.places), draw.choice(sorted(self.kinds))
        return trouble if draw.random() < self.share else None

    def run(self, place: str, task_id: str) -> Any:
        """Fail, if the plan says so."""
        trouble = self.of(task_id)
        return self.kinds[trouble[1]]() if trouble and trouble[0] == place else None


NO_PLAN = Plan(KINDS, share=0.0)


class Hostile(Counter):
    """Fails according to its plan."""

    max_format_errors = 99

    def __init__(self, plan: Plan = NO_PLAN, **kwargs: Any):
        super().__init__(**kwargs)
        self.plan = plan

    def broken(self, place: str) -> Any:
        return self.plan.run(place, self.task.id)

    def start(self, task: Task) -> Any:
        super().start(task)
        return self.broken("start")

    def respond(self, text: str) -> Any:
        self.broken("respond")
        return "go on"

    def grade(self) -> Any:
        return self.broken("grade")

    def details(self) -> dict[str, Any]:
        self.broken("details")
        return {}

    def release(self) -> None:
        if self._task is not None:
            self.broken("release")

    def solution(self, task: Task) -> Solution:
        yield "let me count"
        self.broken("solution")
        yield from super().solution(task)

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self.broken("tool")
        return super().done()


class AsyncHostile(Hostile):
    """The asynchronous version."""

    async def abroken(self, place: str) -> Any:
        await asyncio.sleep(0)
        result = self.broken(place)
        return await result if asyncio.iscoroutine(result) else result

    async def start(self, task: Task) -> Any:
        Counter.start(self, task)
        return await self.abroken("start")

    async def respond(self, text: str) -> Any:
        await self.abroken("respond")
        return "go on"

    async def grade(self) -> Any:
        return await self.abroken("grade")

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        await self.abroken("tool")
        return Counter.done(self)


class ThreadHostile(AsyncHostile):
    """An asynchronous environment with a blocking tool, which runs in a worker thread."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self.broken("tool")
        return Counter.done(self)


class HostileSpeaker:
    """A token policy that solves the task, but fails according to its plan in `generate`, `decode` or `drop`."""

    name = "speaker"
    context = 100_000

    def __init__(self, plan: Plan):
        self.codec, self._plan = _HostileLetters(self), plan
        self._said: dict[int, tuple[list[int], str]] = {}

    async def generate(self, ids: Any, max_new_tokens: int, session: str, **_: Any) -> Generation:
        self.run("generate", session)
        dialect, tools = Counter().dialect, Counter.tools
        ids_ = [*(ord(c) + 2 for c in dialect.render("", [ToolCall("done")], tools)), END]
        self._said[id(ids_)] = ids_, session
        return Generation(ids_, [-1.0] * len(ids_), "stop")

    def release(self, session: str) -> None:
        self.run("drop", session)

    def decoded(self, ids: list[int]) -> None:
        if id(ids) in self._said:
            self.run("decode", self._said[id(ids)][1])

    def run(self, place: str, session: str) -> None:
        self._plan.run(place, session.partition("#")[0])


class _HostileLetters(Letters):
    def __init__(self, owner: HostileSpeaker):
        self._owner = owner

    def decode(self, ids: Any) -> str:
        self._owner.decoded(ids)
        return super().decode(ids)
