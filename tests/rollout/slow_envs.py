"""Environments and a policy that take a while."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from agentgym.core.policy import Codec, Generation
from agentgym.core.toolset import tool
from tests.counter_env import Counter
from tests.rollout_cases import END, Letters
from tests.waiting import HANG_S


class Slow(Counter):
    """Its tools take a while."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(0.05)
        return super().done()


class Stuck(Counter):
    """Its tool hangs for some tasks until `go_on` is set."""

    go_on = threading.Event()

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        if self.task.id.endswith(("0", "5")):
            self.go_on.wait(HANG_S)
        return super().done()


class Talker:
    """Samples one token at a time, up to a length, until its time is up."""

    name, context = "talker", 100_000

    def __init__(self, pace_s: float = 0.0, lengths: Any = lambda session: 2):
        self.codec: Codec = Letters()
        self._pace_s, self._lengths = pace_s, lengths

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        until = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        sampled: list[int] = []
        length = self._lengths(session)
        while len(sampled) < length - 1:
            await asyncio.sleep(self._pace_s)
            if time.monotonic() >= until:
                return Generation(sampled, [-1.0] * len(sampled), "time")
            sampled.append(97)
        return Generation([*sampled, END], [-1.0] * length, "stop")

    def release(self, session: str) -> None: ...
