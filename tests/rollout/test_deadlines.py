"""Time limits of a rollout, in an event loop whose clock jumps instead of waiting."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from agentgym.core.endings import Ending, Reason
from agentgym.core.toolset import tool
from agentgym.rollout import EnvFactory
from agentgym.rollout.limits import OutOfTime, off_the_clock, within
from tests.counter_env import AsyncCounter, Counter, groups
from tests.rollout.slow_envs import Stuck, Talker
from tests.rollout_cases import Factory, play_groups
from tests.rows import each_row
from tests.waiting import HANG_S


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose clock jumps ahead, so that every wait ends at once."""

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
    """Work for each positive number of seconds, and pause the clock for each negative one."""
    for seconds in parts:
        if seconds < 0:
            with off_the_clock():
                await asyncio.sleep(-seconds)
        else:
            await asyncio.sleep(seconds)
    return "done"


def limited(*parts: float) -> Any:
    return run(within(turn(*parts), 10.0, Reason.INFRASTRUCTURE, "a turn"))


@each_row("parts", [(9.0,), (-60.0,), (4.0, -60.0, 5.0), (-60.0, 3.0, -60.0, 3.0, -60.0, 3.0)])
def test_a_limit_counts_only_time_on_the_clock(parts: tuple[float, ...]):
    assert limited(*parts) == "done"


@each_row("parts", [(11.0,), (6.0, -60.0, 5.0), (-60.0, 11.0), (3.0, -1.0, 3.0, -1.0, 5.0)])
def test_pauses_do_not_reset_the_limit(parts: tuple[float, ...]):
    with pytest.raises(OutOfTime, match="a turn took longer than its limit of 10 s"):
        limited(*parts)


def test_without_a_limit_there_is_no_clock():
    assert run(within(turn(-60.0, 60.0), None, Reason.INFRASTRUCTURE, "a turn")) == "done"
    assert run(turn(-60.0)) == "done"


# In an engine.

COUNTER = EnvFactory("tests.counter_env:Counter", {})


@pytest.fixture
def let_go() -> Iterator[None]:
    Stuck.go_on.clear()
    yield
    Stuck.go_on.set()


@pytest.mark.usefixtures("let_go")
def test_hanging_environments_fail_only_their_own_episodes():
    trajectories = play_groups(Factory(build=Stuck), groups(20), step_timeout_s=1.5, max_in_flight=20)
    stuck = [t.task_id for t in trajectories if t.failed]
    assert stuck == [t.task_id for t in trajectories if t.task_id.endswith(("0", "5"))]
    assert {t.reason for t in trajectories if t.failed} == {Reason.STEP_TIME}


class Late(AsyncCounter):
    """Takes long in `where`."""

    where = ""

    async def start(self, task: Any) -> None:  # type: ignore[override]
        self.count = 0
        await asyncio.sleep(60 * (self.where == "start"))

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        await asyncio.sleep(60 * (self.where == "tool"))
        return super().done()


@each_row(
    ("build", "limit", "reason", "message"),
    [
        (type("LateStart", (Late,), {"where": "start"}), "reset_timeout_s", Reason.RESET_TIME, "a reset took longer"),
        (type("LateTool", (Late,), {"where": "tool"}), "step_timeout_s", Reason.STEP_TIME, "a step took longer"),
        (type("LateTool", (Late,), {"where": "tool"}), "tool_timeout_s", Reason.TOOL_TIME, "done took longer"),
        (Stuck, "tool_timeout_s", Reason.TOOL_TIME, "done took longer than its limit of 0.2 s"),
    ],
)
@pytest.mark.usefixtures("let_go")
def test_every_wait_has_a_limit_with_an_ending_of_its_own(build: Any, limit: str, reason: Reason, message: str):
    [trajectory] = play_groups(Factory(build=build), groups(1), **{limit: 0.2})
    assert (trajectory.reason, trajectory.ending) == (reason, Ending.FAILED)
    assert message in str(trajectory.error)


def test_a_generation_over_its_time_is_truncated_and_keeps_its_tokens():
    policy = Talker(0.01, lambda session: 10**6)
    [trajectory] = play_groups(COUNTER, groups(1), policy, generation_timeout_s=0.2)
    assert (trajectory.reason, trajectory.ending) == (Reason.GENERATION_TIME, Ending.TRUNCATED)
    assert trajectory.tokens is not None
    assert trajectory.tokens.sampled > 0
    [turn] = trajectory.turns
    assert turn.span == (0, trajectory.tokens.sampled)
    assert turn.action == policy.codec.decode(trajectory.tokens.completion_ids)


def test_an_episode_has_a_time_limit_of_its_own():
    trajectories = play_groups(COUNTER, groups(2), Talker(0.03, lambda session: 5), episode_timeout_s=0.2)
    assert {t.ending for t in trajectories} == {Ending.TRUNCATED}
    assert {t.reason for t in trajectories} == {Reason.TIME}


def test_the_first_environment_has_the_time_limit_of_every_other():
    go = threading.Event()

    class Waiting(Counter):
        def __init__(self) -> None:
            go.wait(HANG_S)
            super().__init__()

    [trajectory] = play_groups(Factory(build=Waiting), groups(1), reset_timeout_s=0.1)
    go.set()
    assert (trajectory.reason, trajectory.component) == (Reason.RESET_TIME, "making")
