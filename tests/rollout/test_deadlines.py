"""Time limits of a rollout, in an event loop whose clock jumps instead of waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.rollout.deadlines import OutOfTime, off_the_clock, within


class Jumping(asyncio.SelectorEventLoop):
    """A loop in which every wait is over at once and has taken as long as it should."""

    def __init__(self) -> None:
        self.now = 0.0
        loop = self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                loop.now += timeout or 0.0
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=Jumping) as runner:
        return runner.run(work)


async def turn(*parts: float) -> str:
    """Work for each number of seconds, and wait off the clock for each negative one."""
    for seconds in parts:
        if seconds < 0:
            with off_the_clock():
                await asyncio.sleep(-seconds)
        else:
            await asyncio.sleep(seconds)
    return "done"


def limited(*parts: float) -> Any:
    return run(within(turn(*parts), 10.0, Reason.INFRASTRUCTURE, "a turn"))


@pytest.mark.parametrize("parts", [(9.0,), (-60.0,), (4.0, -60.0, 5.0), (-60.0, 3.0, -60.0, 3.0, -60.0, 3.0)])
def test_a_limit_counts_only_what_is_on_the_clock(parts: tuple[float, ...]):
    assert limited(*parts) == "done"


@pytest.mark.parametrize("parts", [(11.0,), (6.0, -60.0, 5.0), (-60.0, 11.0), (3.0, -1.0, 3.0, -1.0, 5.0)])
def test_pauses_give_no_time_back(parts: tuple[float, ...]):
    with pytest.raises(OutOfTime, match="a turn took longer than its limit of 10 s"):
        limited(*parts)


def test_pauses_within_pauses_end_with_the_outer_one():
    async def nested() -> str:
        with off_the_clock():
            await turn(-30.0)
            await asyncio.sleep(30.0)
        return await turn(9.0)

    assert run(within(nested(), 10.0, Reason.INFRASTRUCTURE, "a turn")) == "done"


def test_without_a_limit_there_is_no_clock():
    assert run(within(turn(-60.0, 60.0), None, Reason.INFRASTRUCTURE, "a turn")) == "done"
    assert run(turn(-60.0)) == "done"
