"""Several iterations of one engine share its bounds, do not mix, and leave it usable."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.messages import Message
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy
from agentgym.core.toolset import tool
from agentgym.rollout import Group, Job, Limits, RolloutEngine
from tests.counter_env import Counter, groups
from tests.rollout_cases import Factory
from tests.waiting import HANG_S, eventually

COUNTER = Factory(build=Counter)


def jobs(count: int) -> list[Job]:
    return [job for group in groups(count) for job in group.jobs]


class Waiting(FunctionPolicy):
    """A policy that gives up once `go_on` is set."""

    def __init__(self) -> None:
        super().__init__("slow", self._give_up)
        self.go_on = asyncio.Event()

    async def _give_up(self, messages: list[Message]) -> None:
        await self.go_on.wait()


def test_concurrent_iterations_share_the_slots_of_their_engine():
    envs: list[Any] = []
    running: list[Any] = []
    counts: list[int] = []

    class Narrow(Counter):
        max_concurrent = 2

        def __init__(self) -> None:
            envs.append(self)
            super().__init__()

        def start(self, task: Any) -> None:
            super().start(task)
            running.append(self)
            counts.append(len(running))

        @tool
        def done(self) -> str:
            """Say that the goal is reached."""
            time.sleep(0.005)  # others may begin meanwhile, if there is room for them
            running.remove(self)
            return super().done()

    ids: list[str] = []
    with RolloutEngine(Factory(build=Narrow), ScriptedPolicy(), Limits(max_in_flight=8)) as engine:
        work = groups(30)

        def play(share: list[Group]) -> None:
            ids.extend(played.group.task.id for played in engine.play(share))

        playing = [threading.Thread(target=play, args=(share,)) for share in (work[:12], work[12:24], work[24:], [])]
        for thread in playing:
            thread.start()
        for thread in playing:
            thread.join(HANG_S)
    assert sorted(ids) == sorted(group.task.id for group in work)
    assert max(counts) <= 2
    assert len(envs) <= 2


def test_two_iterations_do_not_play_one_conversation_twice():
    policy = Waiting()
    with RolloutEngine(COUNTER, policy) as engine:
        first = engine.trajectories(jobs(2))
        playing = threading.Thread(target=lambda: list(first))
        playing.start()
        assert eventually(lambda: "policy" in engine.waits.report())
        with pytest.raises(UsageError, match="two jobs are called"):
            list(engine.trajectories(jobs(1)))
        engine._loop.soon(policy.go_on.set)
        playing.join(HANG_S)
        assert len(list(engine.trajectories(jobs(2)))) == 2


def test_an_abandoned_iteration_frees_its_slots():
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=2)) as engine:
        work = groups(30)
        first = engine.play(work[:20])
        next(first)
        assert len(list(engine.play(work[20:]))) == 10
        assert len(list(first)) == 19


def test_a_generator_is_collected_whole_and_two_jobs_of_one_name_are_refused():
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=1)) as engine:
        assert len(engine.collect(group for group in groups(3))) == 3  # type: ignore[arg-type]
        task = groups(1)[0].task
        with pytest.raises(UsageError, match="two jobs"):
            engine.collect([Group(task, 1), Group(task, 2)])


def test_any_error_of_the_work_iterable_propagates():
    def work() -> Iterator[Job]:
        yield from jobs(2)
        raise asyncio.CancelledError("mine")

    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        with pytest.raises(asyncio.CancelledError, match="mine"):
            list(engine.trajectories(work()))
        assert len(list(engine.trajectories(jobs(2)))) == 2
