"""Whatever an environment or a policy raises fails one episode: every trajectory is delivered, nothing is hidden."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentgym.checks import check_names, run_checks
from agentgym.endings import Ending, Reason
from agentgym.env import Env
from agentgym.errors import InfrastructureError, UsageError
from agentgym.evaluation import evaluate
from agentgym.messages import Message
from agentgym.policy import FunctionPolicy, ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect, rollouts
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory, read_jsonl
from tests.counter_env import AsyncCounter, Counter, call
from tests.rollout.hostile_envs import (
    FAILING,
    KINDS,
    PLACES,
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


@pytest.fixture(autouse=True)
def _asyncio_complains_of_nothing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No exception is never retrieved. (That a coroutine was never awaited is a warning, and so an error.)"""
    caplog.set_level(logging.WARNING, "asyncio")
    yield
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def jobs(count: int) -> list[Job]:
    source = Counter.default_tasks()
    return [Job(source.get("train", index), seed=index) for index in range(count)]


def run(work: list[Job], policy: Any, factory: EnvFactory, **limits: Any) -> list[Trajectory]:
    bounds: dict[str, Any] = {"retries": 0, "max_in_flight": 40} | limits
    return asyncio.run(collect(work, policy, factory, Limits(**bounds)))


def check_all(found: list[Trajectory], plan: Plan, failing: tuple[str, ...] = FAILING) -> None:
    """Those episodes failed that the plan broke, and no others."""
    troubles = {t.task_id: plan.of(t.task_id) for t in found}
    expected = {task for task, trouble in troubles.items() if trouble and trouble[0] in failing}
    failed = {t.task_id: t for t in found if t.ending is Ending.FAILED}
    assert failed.keys() == expected, {task: troubles[task] for task in failed.keys() ^ expected}
    assert all(t.reason is Reason.INFRASTRUCTURE and t.error and not t.success for t in failed.values())
    assert all(t.ending is Ending.TERMINATED for t in found if t.task_id not in failed)
    tried = {trouble[1] for trouble in troubles.values() if trouble}
    assert tried == set(plan.kinds), "every kind was met"


@pytest.mark.parametrize("mode", MODES)
def test_whatever_an_environment_raises_300_of_300_trajectories_are_delivered(mode: str):
    build, plan = MODES[mode]
    found = run(jobs(300), ScriptedPolicy(), Factory(build=partial(build, plan)))
    assert len({t.id for t in found}) == 300
    check_all(found, plan)


@pytest.mark.parametrize("build", [Hostile, AsyncHostile])
def test_an_evaluation_accounts_for_every_episode_and_keeps_it(build: type[Hostile], tmp_path: Path):
    out = tmp_path / "t.jsonl"
    tasks = [job.task for job in jobs(300)]
    factory = Factory(build=partial(build, EVERYWHERE))
    summary = evaluate(factory, ScriptedPolicy(), tasks, out=out, limits=Limits(retries=0))
    assert summary.failed + summary.overall.attempts == 300
    check_all(list(read_jsonl(out)), EVERYWHERE)


def test_whatever_a_token_policy_raises_300_of_300_trajectories_are_delivered():
    plan = Plan(KINDS, ("generate", "decode", "drop"))
    found = run(jobs(300), HostileSpeaker(plan), Factory(build=Hostile))
    assert len({t.id for t in found}) == 300
    check_all(found, plan, ("generate", "decode"))


@pytest.mark.parametrize("kind", [*KINDS, *TASK_KINDS])
def test_whatever_a_chat_policy_raises_fails_its_own_episode_only(kind: str):
    async def ask(conversation: list[Message]) -> str | None:
        if "Count to 3." in str(conversation):
            result = (KINDS | TASK_KINDS)[kind]()  # type: ignore[operator]
            await result
        return None

    found = run(jobs(10), FunctionPolicy("endpoint", ask), Factory(build=Counter))
    assert [t.reason for t in found] == [Reason.INFRASTRUCTURE if i % 5 + 1 == 3 else Reason.GAVE_UP for i in range(10)]


@pytest.mark.parametrize("kind", [*KINDS, *TASK_KINDS])
def test_what_breaks_once_is_tried_again_on_a_fresh_environment(kind: str):
    made: list[Env] = []

    class Once(AsyncCounter):
        async def start(self, task: Any) -> None:  # type: ignore[override]
            self.count = 0
            made.append(self)
            if len(made) == 1:
                await (KINDS | TASK_KINDS)[kind]()  # type: ignore[operator]

    (trajectory,) = run(jobs(1), ScriptedPolicy(), Factory(build=Once), retries=1)
    assert trajectory.success
    assert len(made) == 2
    assert made[0] is not made[1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_that_cannot_always_be_made_costs_only_those_episodes(kind: str):
    made: list[int] = []

    def build(**kwargs: Any) -> Env:
        made.append(1)
        if len(made) % 2:
            KINDS[kind]()
        return Counter(**kwargs)

    found = run(jobs(4), ScriptedPolicy(), Factory(build=build), retries=0, max_in_flight=1)
    assert [t.reason for t in found] == [Reason.ANSWERED] * 4


@pytest.mark.parametrize("build", [Hostile, AsyncHostile, ThreadHostile])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "KeyboardInterrupt"])
def test_without_a_rollout_it_is_an_infrastructure_error_and_the_next_environment_works(
    build: type[Hostile], kind: str
):
    env = build(Plan({kind: KINDS[kind]}, ("tool",), share=1.0))
    env.reset(seed=1)
    with pytest.raises(InfrastructureError, match="broke on task"):
        env.step(call("done"))
    other = build()
    other.reset(seed=1)
    assert other.step(call("done")).terminated


def test_a_callers_mistake_of_many_episodes_at_once_comes_through_once():
    async def ask(conversation: list[Message]) -> str:
        raise UsageError("no such model")

    with pytest.raises(UsageError, match="no such model"):
        run(jobs(40), FunctionPolicy("endpoint", ask), Factory(build=Counter))


def test_a_number_that_is_none_is_never_a_reward():
    class Odd(Counter):
        def grade(self) -> Any:
            return {"final": [float("nan"), float("inf"), "high", None, 0.5][int(self.task.id[-1]) % 5]}

    found = run(jobs(5), ScriptedPolicy(), Factory(build=Odd))
    assert [t.reason for t in found] == [Reason.INFRASTRUCTURE] * 4 + [Reason.ANSWERED]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["SystemExit", "CancelledError", "unreadable"])
def test_the_checks_report_it_and_go_on(place: str, kind: str):
    only = ["makes", "plays", "solution-solves", "hostile-text", "close-twice"]
    plan = Plan({kind: KINDS[kind]}, (place,), share=1.0)
    report = run_checks("tests.rollout.hostile_envs:Hostile", {"plan": plan}, only=only)
    assert [row.name for row in report.rows] == [name for name in check_names() if name in only]
    assert any(kind.removeprefix("un").lower() in row.message.lower() for row in report.problems)


# The caller ends the work.


class Endless(AsyncCounter):
    """Waits for ever, and does not want to hear of being cancelled the first time."""

    waiting: list[Env]
    went_on: list[Env]

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
        self.went_on.append(self)
        return ""


async def _cancelled_when(ready: Callable[[], bool], work: Any) -> None:
    task = asyncio.create_task(work)
    while not ready():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_real_cancel_ends_all_episodes_also_those_that_do_not_listen():
    waiting: list[Any] = []
    went_on: list[Any] = []
    kind = type("Waiting", (Endless,), {"waiting": waiting, "went_on": went_on})
    work = collect(jobs(8), ScriptedPolicy(), Factory(build=kind), Limits(retries=5))
    asyncio.run(_cancelled_when(lambda: len(waiting) == 8, work))
    assert len(waiting) == 8, "nothing was tried again"
    assert [env.released for env in waiting] == [1] * 8
    assert went_on == []


def test_leaving_a_rollout_early_ends_the_other_episodes():
    waiting: list[Any] = []
    kind = type("Waiting", (Endless,), {"waiting": waiting, "went_on": []})

    async def some() -> None:
        stream = rollouts(jobs(8), ScriptedPolicy(), Factory(build=kind))
        first = asyncio.create_task(anext(stream))
        while len(waiting) < 8:
            await asyncio.sleep(0.001)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(some())
    assert [env.released for env in waiting] == [1] * 8


WAITS = """
import asyncio, signal, sys
from agentgym.evaluation import evaluate
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory
from agentgym.task import iterate
from tests.counter_env import AsyncCounter
from agentgym.toolset import tool

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may have it ignored

class Waiting(AsyncCounter):
    @tool
    async def add(self, number: int) -> str:
        '''Add.

        Args:
            number: How much.
        '''
        print("waiting", flush=True)
        await asyncio.sleep(3600)

tasks = list(iterate(AsyncCounter.default_tasks(), "train", 4))
evaluate(EnvFactory("__main__:Waiting", {}), ScriptedPolicy(), tasks)
"""


@pytest.mark.real
def test_ctrl_c_ends_an_evaluation_at_once():
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(4)] == ["waiting\n"] * 4
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.strip().endswith("KeyboardInterrupt")
    assert "never retrieved" not in said
