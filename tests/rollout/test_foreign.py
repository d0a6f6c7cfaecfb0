"""An exception of an environment or a policy fails one episode; every trajectory is delivered."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Ending, Reason
from agentgym.core.env import Env
from agentgym.core.messages import Message
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Job, Limits, rollouts
from agentgym.rollout.streams import play_jobs
from tests.counter_env import AsyncCounter, Counter, call
from tests.rollout.hostile_envs import (
    FAILING,
    KINDS,
    TASK_KINDS,
    AsyncHostile,
    Hostile,
    HostileSpeaker,
    Plan,
    ThreadHostile,
)
from tests.rollout_cases import Factory

EVERYWHERE = Plan(KINDS)
ON_THE_LOOP = Plan(TASK_KINDS, ("start", "tool", "respond", "grade"))
MODES: dict[str, tuple[type[Hostile], Plan]] = {
    "blocking": (Hostile, EVERYWHERE),
    "asynchronous": (AsyncHostile, EVERYWHERE),
    "asynchronous, with blocking tools": (ThreadHostile, EVERYWHERE),
    "asynchronous, with tasks of its own": (AsyncHostile, ON_THE_LOOP),
}
EPISODES = 100


@pytest.fixture(autouse=True)
def _asyncio_complains_of_nothing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every exception is retrieved. (A coroutine that is never awaited is a warning, and so an error.)"""
    caplog.set_level(logging.WARNING, "asyncio")
    yield
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def jobs(count: int) -> list[Job]:
    source = Counter.default_tasks()
    return [Job(source.get("train", index), seed=index) for index in range(count)]


def run(work: list[Job], policy: Any, factory: EnvFactory, **limits: Any) -> list[Trajectory]:
    bounds: dict[str, Any] = {"retries": 0, "max_in_flight": 40} | limits
    return asyncio.run(play_jobs(work, policy, factory, Limits(**bounds)))


def check_all(trajectories: list[Trajectory], plan: Plan, failing: tuple[str, ...] = FAILING) -> None:
    """Assert that exactly the episodes with a planned failure failed."""
    assert len({t.id for t in trajectories}) == EPISODES
    troubles = {t.task_id: trouble for t in trajectories if (trouble := plan.of(t.task_id))}
    expected = {task for task, trouble in troubles.items() if trouble[0] in failing}
    failed = {t.task_id: t for t in trajectories if t.ending is Ending.FAILED}
    assert failed.keys() == expected, {task: troubles.get(task) for task in failed.keys() ^ expected}
    for trajectory in failed.values():
        place, kind = troubles[trajectory.task_id]
        is_script = place == "solution" and kind not in ("KeyboardInterrupt", "CancelledError")
        reason = Reason.SCRIPT_FAILED if is_script else Reason.INFRASTRUCTURE
        assert (trajectory.reason, bool(trajectory.error), trajectory.success) == (reason, True, False)
    assert all(t.ending is Ending.TERMINATED for t in trajectories if t.task_id not in failed)
    assert {trouble[1] for trouble in troubles.values()} == set(plan.kinds), "every kind occurs"


@pytest.mark.parametrize("mode", MODES)
def test_every_trajectory_is_delivered_whatever_environments_raise(mode: str):
    build, plan = MODES[mode]
    check_all(run(jobs(EPISODES), ScriptedPolicy(), Factory(build=partial(build, plan))), plan)


def test_every_trajectory_is_delivered_whatever_token_policies_raise():
    plan = Plan(KINDS, ("generate", "decode", "drop"))
    check_all(run(jobs(EPISODES), HostileSpeaker(plan), Factory(build=Hostile)), plan, ("generate", "decode"))


def test_a_chat_policy_that_raises_fails_its_own_episode_only():
    expected = [Reason.INFRASTRUCTURE if i % 5 + 1 == 3 else Reason.GAVE_UP for i in range(10)]
    for kind, raises in {**KINDS, **TASK_KINDS}.items():

        async def ask(conversation: list[Message], raises: Callable[[], Any] = raises) -> str | None:
            if "Count to 3." in str(conversation):
                await raises()
            return None

        trajectories = run(jobs(10), FunctionPolicy("endpoint", ask), Factory(build=Counter))
        assert [t.reason for t in trajectories] == expected, kind


def test_an_environment_that_breaks_once_is_replaced_by_a_fresh_one():
    for kind, raises in {**KINDS, **TASK_KINDS}.items():
        envs: list[Env] = []

        class Once(AsyncCounter):
            async def start(self, task: Any, envs: Any = envs, raises: Any = raises) -> None:  # type: ignore[override]
                self.count = 0
                envs.append(self)
                if len(envs) == 1:
                    await raises()

        (trajectory,) = run(jobs(1), ScriptedPolicy(), Factory(build=Once), retries=1)
        assert trajectory.success, kind
        assert len({id(env) for env in envs}) == len(envs) == 2, kind


def test_a_constructor_that_sometimes_raises_is_tried_again():
    for kind, raises in KINDS.items():
        calls: list[int] = []

        def build(calls: Any = calls, raises: Any = raises, **kwargs: Any) -> Env:
            calls.append(1)
            if len(calls) % 2:
                raises()
            return Counter(**kwargs)

        trajectories = run(jobs(4), ScriptedPolicy(), Factory(build=build), max_in_flight=1)
        assert [t.reason for t in trajectories] == [Reason.ANSWERED] * 4, kind


@pytest.mark.parametrize("build", [Hostile, AsyncHostile, ThreadHostile])
def test_without_a_rollout_every_exception_is_an_infrastructure_error(build: type[Hostile]):
    for kind, raises in KINDS.items():
        if kind == "KeyboardInterrupt":
            continue
        env = build(Plan({kind: raises}, ("tool",), share=1.0))
        env.reset(seed=1)
        with pytest.raises(InfrastructureError, match="broke on task"):
            env.step(call("done"))
        other = build()
        other.reset(seed=1)
        assert other.step(call("done")).terminated, kind


# Cancellation by the caller.


class Endless(AsyncCounter):
    """Waits forever, and ignores its first cancellation."""

    waiting: list[Env]
    continued: list[Env]

    @tool
    async def add(self, number: int) -> str:
        """Add.

        Args:
            number: How much.
        """
        self.waiting.append(self)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "never mind"
        return ""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        self.continued.append(self)
        return ""


async def _first_of(stream: Any) -> None:
    await anext(stream)


@pytest.mark.parametrize("way", ["collecting", "iterating"])
def test_cancelling_ends_even_episodes_that_ignore_it(way: str):
    waiting: list[Any] = []
    continued: list[Any] = []
    factory = Factory(build=type("Waiting", (Endless,), {"waiting": waiting, "continued": continued}))

    async def cancelled() -> None:
        arguments = jobs(8), ScriptedPolicy(), factory, Limits(retries=5)
        task = asyncio.create_task(
            play_jobs(*arguments) if way == "collecting" else _first_of(rollouts(*arguments))  # type: ignore[arg-type]
        )
        while len(waiting) < 8:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert [env.released for env in waiting] == [1] * 8, "nothing was tried again"
    assert continued == []
