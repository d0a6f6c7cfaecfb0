"""An environment is written once and serves both: loops that wait for it, and event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import text_of
from agentgym.toolset import tool
from tests.counter_env import AsyncCounter, Counter, call, started

KINDS = pytest.mark.parametrize("kind", [Counter, AsyncCounter])


def test_an_asynchronous_tool_works_in_a_synchronous_loop_and_inside_a_running_one():
    async def inside() -> str:
        return text_of(started(AsyncCounter).step(call("add", number=2)).observation[0])

    assert started(AsyncCounter).step(call("add", number=2)).observation[0]["content"] == "count 2"
    assert asyncio.run(inside()) == "count 2"


class Nesting(AsyncCounter):
    """Plays another environment in a tool, and so waits for the loop that it runs on itself."""

    @tool
    async def nest(self) -> str:
        """Play another environment."""
        started(AsyncCounter)
        return "played"


def test_an_environment_that_would_wait_for_itself_for_ever_is_refused():
    with pytest.raises(UsageError, match="await it instead"):
        started(Nesting).step(call("nest"))


@KINDS
def test_the_async_methods_do_as_the_others_do(kind: type[Env]):
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
        """Waits until the loop has moved. Beside it there may be tools that are coroutines."""

        @tool
        def wait(self) -> str:
            """Wait."""
            started.set()
            return "the loop moved" if resumed.wait(30) else "the loop stood still"

    async def play() -> str:
        env = Slow()
        await env.areset(seed=1)
        step = asyncio.create_task(env.astep(call("wait")))
        await asyncio.to_thread(started.wait, 30)
        resumed.set()
        return text_of((await step).observation[0])

    assert asyncio.run(play()) == "the loop moved"


def test_a_tool_that_breaks_on_the_event_loop_is_an_infrastructure_failure():
    async def play(number: int) -> None:
        env = Counter()
        await env.areset(seed=1)
        await env.astep(call("add", number=number))

    for number in (13, 14):
        with pytest.raises(InfrastructureError):
            asyncio.run(play(number))
