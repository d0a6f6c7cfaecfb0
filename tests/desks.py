"""An environment with concurrent calls that wait for each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from agentgym import Channel, Env, Task, TaskList, ToolCall, ToolError, tool
from agentgym.core.endings import Reason
from agentgym.core.messages import assistant
from agentgym.core.policy import FunctionPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs

TASKS = TaskList([Task(id=f"desk/train/{n}", split="train", prompt="Look.", data={"n": n}) for n in range(3)])
LONG_S = 20.0


class Desk(Env):
    """Drawers are concurrent tools; the lamp is not."""

    channels = {
        "outcome": Channel("1 if done"),
        "seen": Channel("what the drawers were worth", high=10.0, per_turn=True),
        "often": Channel("1 for a look", per_turn=True),
    }
    max_calls_per_turn = 8

    def start(self, task: Task) -> None:
        self.lit = False
        self.noted: list[str] = []
        self.met = threading.Barrier(2)
        self.looking = 0
        self.last, self.never = threading.Event(), threading.Event()

    @tool(concurrent=True)
    def meet(self) -> str:
        """Wait for another caller."""
        self.met.wait(LONG_S)
        return "met"

    @tool(concurrent=True)
    def look(self, drawer: str, worth: float = 1.0) -> str:
        """Look into a drawer. All wait for the last one of the turn.

        Args:
            drawer: Its name.
            worth: What it is worth.
        """
        if drawer == "last":
            self.last.set()
        elif drawer != "only":
            self.last.wait(LONG_S)
        if drawer == "broken":
            raise OSError("the drawer fell out")
        self.reward("seen", worth)
        self.reward("often", 1.0)
        if drawer == "locked":
            raise ToolError("It is locked.")
        if drawer == "end":
            self.finish(Reason.SOLVED)
        return f"{drawer} by {'light' if self.lit else 'night'}"

    @tool(concurrent=True)
    def note(self, word: str) -> Callable[[], str]:
        """Note a word.

        Args:
            word: The word.
        """
        return lambda: self.noted.append(word) or " ".join(self.noted)

    @tool(concurrent=True)
    def ask(self) -> Callable[[], bool]:
        """Ask someone who never answers, in the order of the calls."""
        return lambda: self.never.wait(LONG_S)

    @tool
    def switch(self) -> str:
        """Switch the lamp."""
        self.lit = not self.lit
        return "on" if self.lit else "off"


class MixedDesk(Desk):
    """Some of its tools are asynchronous."""

    @tool(concurrent=True)
    async def wait(self) -> str:
        """Wait until the last drawer is open."""
        while not self.last.is_set():
            await asyncio.sleep(0.001)
        self.reward("seen", 3.0)
        return "waited"


def look(drawer: str, **arguments: Any) -> ToolCall:
    return ToolCall("look", {"drawer": drawer, **arguments})


def trajectory(limits: Limits | None = None, *calls: ToolCall, kind: str = "Desk", workers: Any = None) -> Trajectory:
    """Play one turn of calls, and give up."""
    turns = iter([assistant("", list(calls)), None])
    policy = FunctionPolicy("caller", lambda _: next(turns, None))
    factory = EnvFactory(f"{__name__}:{kind}", {"tasks": TASKS})
    limits = limits or Limits(retries=0)
    (played,) = asyncio.run(play_jobs([Job(TASKS.get("train", 0), 0)], policy, factory, limits, workers))
    return played
