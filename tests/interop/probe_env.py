"""The environment that every adapter is measured on: what it shows depends on the seed, and each turn pays apart."""

from __future__ import annotations

import base64
from threading import Barrier, BrokenBarrierError
from typing import Any, ClassVar

from agentgym.base.errors import InfrastructureError, ToolError
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import Pictured, ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool

PROBE = "tests.interop.probe_env:ProbeEnv"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
BROKEN_SEED = 4_002
"""An episode with this seed cannot begin."""
TOGETHER = 4
"""Episodes that `meet` waits for."""
MEETING_S = 20.0
"""Seconds after which `meet` says that nobody came."""


class ProbeEnv(Env):
    """Do as you like: each tool shows one thing that an adapter must not lose."""

    channels = {OUTCOME: Channel("1 if finished rightly"), "paid": Channel("what was asked for")}
    scheme = Scheme({OUTCOME: 1.0, "paid": 1.0}, allow_unsound=True)
    reasons = {"declined": Ending.TERMINATED}
    max_turns = 5
    meeting = Barrier(TOGETHER)
    """Where `meet` waits; episodes in several processes need another one."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("probe", lambda split, index: Task(f"probe/{split}/{index}", split, "?"), {"train": None})

    def start(self, task: Task) -> str:
        if self.np_random_seed == BROKEN_SEED:
            raise InfrastructureError("there is no probe today")
        return f"Your number is {self._drawn()}."

    def _drawn(self) -> int:
        return int(self.np_random.integers(100_000_000, 1_000_000_000))

    @tool
    def pay(self, amount: float) -> str:
        """Get paid.

        Args:
            amount: How much, from 0 to 1.
        """
        if not 0 <= amount <= 1:
            raise ToolError("Ask for something from 0 to 1.")
        self.reward("paid", amount)
        return "paid"

    @tool
    def roll(self) -> str:
        """Draw another number."""
        return f"It is {self._drawn()}."

    @tool
    def look(self) -> Pictured:
        """See something."""
        return Pictured("There it is.", (PNG,))

    @tool
    def meet(self) -> str:
        """Wait for others."""
        try:
            self.meeting.wait(MEETING_S)
        except BrokenBarrierError:
            self.meeting.reset()
            raise ToolError("nobody came") from None
        return "met"

    @tool
    def collapse(self) -> str:
        """Break what is around you."""
        raise InfrastructureError("the probe collapsed")

    @tool
    def finish_as(self, what: str) -> str:
        """End it.

        Args:
            what: `solved`, `answered` or `declined`.
        """
        if what == "solved":
            self.reward(OUTCOME, 1.0)
        self.finish(Reason(what) if what in tuple(Reason) else "declined")
        return "over"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("finish_as", {"what": "solved"})


class CountedEnv(ProbeEnv):
    """Records the environments that are opened and closed."""

    opened: ClassVar[list[CountedEnv]] = []
    closed: ClassVar[list[CountedEnv]] = []
    max_concurrent = 2

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        self.opened.append(self)

    def release(self) -> None:
        self.closed.append(self)
