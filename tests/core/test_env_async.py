"""An environment has synchronous and asynchronous methods with the same results."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import text_of
from agentgym.core.toolset import tool
from tests.counter_env import AsyncCounter, Counter, call, started
from tests.waiting import HANG_S

KINDS = pytest.mark.parametrize("kind", [Counter, AsyncCounter])


def test_an_async_tool_works_without_and_within_a_running_loop():
    async def inside() -> str:
        return text_of(started(AsyncCounter).step(call("add", number=2)).observation[0])

    assert started(AsyncCounter).step(call("add", number=2)).observation[0]["content"] == "count 2"
    assert asyncio.run(inside()) == "count 2"


@KINDS
def test_async_methods_match_the_synchronous_ones(kind: type[Env]):
    async def play() -> list[Any]:
        env = kind()
        opening, _ = await env.areset(seed=1, options={"split": "test", "index": 2})
        return [opening, await env.astep(call("add", number=3)), await env.ainterrupt(Reason.CONTEXT)]

    env = kind()
    opening, _ = env.reset(seed=1, options={"split": "test", "index": 2})
    expected = [opening, env.step(call("add", number=3)), env.interrupt(Reason.CONTEXT)]
    assert asyncio.run(play()) == expected


@KINDS
def test_a_blocking_tool_does_not_block_the_event_loop(kind: type[Env]):
    started, resumed = threading.Event(), threading.Event()

    class Slow(kind):  # type: ignore[misc, valid-type]
        """Waits until the loop has moved on. Its other tools may be coroutines."""

        @tool
        def wait(self) -> str:
            """Wait."""
            started.set()
            return "the loop moved" if resumed.wait(HANG_S) else "the loop stood still"

    async def play() -> str:
        env = Slow()
        await env.areset(seed=1)
        step = asyncio.create_task(env.astep(call("wait")))
        await asyncio.to_thread(started.wait, 30)
        resumed.set()
        return text_of((await step).observation[0])

    assert asyncio.run(play()) == "the loop moved"
