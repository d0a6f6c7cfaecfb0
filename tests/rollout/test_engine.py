"""What a rollout engine promises: whole groups, time limits that run from the start of the work, named failures."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentgym.commands.options import timeouts_in
from agentgym.endings import Ending, Reason
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import Message
from agentgym.policy import Codec, FunctionPolicy, Generation, ScriptedPolicy
from agentgym.rollout import (
    Backoff,
    Breaker,
    Component,
    EnvFactory,
    Failures,
    Group,
    Job,
    Limits,
    Outage,
    PlayedGroup,
    RolloutEngine,
)
from agentgym.rollout.conversation import Conversation
from agentgym.rollout.waits import report_all
from agentgym.rollout.workers.choice import WORKERS
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory
from tests.counter_env import AsyncCounter, Counter, groups
from tests.rollout_cases import END, Factory, Letters
from tests.waiting import eventually

COUNTER = EnvFactory("tests.counter_env:Counter", {})


def played(factory: EnvFactory, work: Sequence[Group], policy: Any = None, **limits: Any) -> list[Trajectory]:
    bounds = Limits(**{"retries": 0, **limits})
    with RolloutEngine(factory, policy or ScriptedPolicy(), bounds) as engine:
        return [t for group in engine.collect(work) for t in group.trajectories]


# Groups.


def test_groups_come_whole_and_each_once():
    work = groups(7, size=3)
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=4)) as engine:
        found = list(engine.play(work))
    assert sorted(g.group.task.id for g in found) == sorted(g.task.id for g in work)
    assert all([t.attempt for t in g.trajectories] == [0, 1, 2] for g in found)
    assert engine.tally.tries == 21


def test_collected_groups_are_in_order_and_one_engine_serves_many_steps():
    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        for first in (0, 8):
            work = [Group(g.task, g.seed, 2, first) for g in groups(5)]
            assert [g.group for g in engine.collect(work)] == work


def test_a_group_carries_the_versions_of_the_policy_that_sampled_it():
    class Versioned(Talker):
        async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
            return Generation([97, END], [-1.0, -1.0], "stop", version=int(session[-1]))

    with RolloutEngine(COUNTER, Versioned()) as engine:
        [found] = engine.collect([Group(groups(1)[0].task, 0, size=2, first=4)])
    assert found.versions == (4, 5)
    assert PlayedGroup(found.group, []).versions == ()


def test_a_caller_with_a_loop_of_its_own_gets_groups_while_the_loop_stays_free():
    async def play() -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        engine = RolloutEngine(Factory(build=Slow), ScriptedPolicy())
        found = [group async for group in engine.stream(groups(4))]
        engine.close()
        ticking.cancel()
        return len(found), ticks

    found, ticks = asyncio.run(play())
    assert found == 4
    assert ticks > 10


def test_two_episodes_of_one_name_at_once_are_refused():
    work = groups(1) * 2
    with pytest.raises(UsageError, match="two jobs are called 'counter/train/0#0'"):
        played(Factory(build=Slow), work)


def test_a_closed_engine_plays_no_more():
    engine = RolloutEngine(COUNTER, ScriptedPolicy())
    engine.close()
    engine.close()
    with pytest.raises(UsageError, match="this rollout engine is closed"):
        engine.collect(groups(1))


def test_leaving_an_iteration_ends_the_other_episodes():
    released: list[int] = []

    class Watched(Slow):
        def release(self) -> None:
            released.append(1)

    with RolloutEngine(Factory(build=Watched), ScriptedPolicy(), Limits(max_in_flight=6)) as engine:
        for _ in engine.play(groups(100)):
            break
        assert engine.waits.report() == "no trajectory waits for anything"
    assert len(released) <= 12


# Time limits.


class Slow(Counter):
    """Its tools take a while."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(0.05)
        return super().done()


class Stuck(Counter):
    """Its tools hang for some tasks until they are let go."""

    go_on = threading.Event()

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        if self.task.id.endswith(("0", "5")):
            self.go_on.wait(60)
        return super().done()


@pytest.fixture
def let_go() -> Iterator[None]:
    Stuck.go_on.clear()
    yield
    Stuck.go_on.set()


@pytest.mark.usefixtures("let_go")
def test_hanging_environments_cost_their_own_episodes_and_no_others():
    found = played(Factory(build=Stuck), groups(60), step_timeout_s=0.3, max_in_flight=60)
    stuck = [t.task_id for t in found if t.failed]
    assert stuck == [t.task_id for t in found if t.task_id.endswith(("0", "5"))]
    assert {t.reason for t in found if t.failed} == {Reason.STEP_TIME}


def test_a_time_limit_does_not_run_while_others_have_their_turn():
    """64 episodes of 50 ms: were they to queue for a few threads, most would be over the limit."""
    found = played(Factory(build=Slow), groups(64), step_timeout_s=2.0, max_in_flight=64)
    assert not any(t.failed for t in found)


class Late(AsyncCounter):
    """Takes long wherever it is told to."""

    where = ""

    async def start(self, task: Any) -> None:  # type: ignore[override]
        self.count = 0
        await asyncio.sleep(60 * (self.where == "start"))

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        await asyncio.sleep(60 * (self.where == "tool"))
        return super().done()


@pytest.mark.parametrize(
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
    [found] = played(Factory(build=build), groups(1), **{limit: 0.2})
    assert (found.reason, found.ending) == (reason, Ending.FAILED)
    assert message in str(found.error)


def test_many_short_tools_are_no_long_one():
    class Patient(AsyncCounter):
        @tool
        async def done(self) -> str:
            """Say that the goal is reached."""
            await asyncio.sleep(0.15)
            return super().done() if len(self._actions) > 2 else "not yet"

        def solution(self, task: Any) -> Any:
            yield from super().solution(task)
            yield from super().solution(task)

    [found] = played(Factory(build=Patient), groups(1), tool_timeout_s=0.25)
    assert not found.failed


class Talker:
    """Says one token at a time, as many as a turn is to have, until its time is up."""

    name, context = "talker", 100_000

    def __init__(self, pace_s: float = 0.0, lengths: Any = lambda session: 2):
        self.codec: Codec = Letters()
        self._pace_s, self._lengths = pace_s, lengths

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        until = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        said: list[int] = []
        wanted = self._lengths(session)
        while len(said) < wanted - 1:
            await asyncio.sleep(self._pace_s)
            if time.monotonic() >= until:
                return Generation(said, [-1.0] * len(said), "time")
            said.append(97)
        return Generation([*said, END], [-1.0] * wanted, "stop")

    def release(self, session: str) -> None: ...


def test_a_generation_over_its_time_is_truncated_and_keeps_its_tokens():
    policy = Talker(0.01, lambda session: 10**6)
    [found] = played(COUNTER, groups(1), policy, generation_timeout_s=0.2)
    assert (found.reason, found.ending) == (Reason.GENERATION_TIME, Ending.TRUNCATED)
    assert found.tokens is not None
    assert found.tokens.sampled > 0
    [turn] = found.turns
    assert turn.span == (0, found.tokens.sampled)
    assert turn.action == policy.codec.decode(found.tokens.completion_ids)


def test_the_lengths_that_are_trained_on_are_the_lengths_that_were_sampled():
    """Retrying or dropping turns that take too long would leave the short ones: the policy would learn to be brief."""

    def length(session: str) -> int:
        return 2 if int(session.partition("#")[2]) % 2 else 10**6

    [group] = groups(1, size=40)
    found = played(COUNTER, [group], Talker(0.001, length), generation_timeout_s=0.3, retries=2)
    cut_off = [t for t in found if t.reason is Reason.GENERATION_TIME]
    assert [t.attempt % 2 for t in cut_off] == [0] * 20
    assert not any(t.failed for t in found)
    assert min(t.tokens.sampled for t in cut_off if t.tokens) > max(
        turn.span[1] - turn.span[0] for t in found if t not in cut_off for turn in t.turns if turn.span
    )


def test_an_episode_has_a_time_limit_of_its_own():
    found = played(COUNTER, groups(2), Talker(0.03, lambda session: 5), episode_timeout_s=0.2)
    assert {t.ending for t in found} == {Ending.TRUNCATED}
    assert {t.reason for t in found} == {Reason.TIME}


def test_a_policy_that_is_busy_when_the_time_of_an_episode_ends_is_not_stuck():
    """It cuts its turn off once it begins to sample, which may be long after it was asked."""

    class Busy(Talker):
        async def generate(
            self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
        ) -> Generation:
            await asyncio.sleep(0.2)
            return Generation([97], [-1.0], "time")

    for limits in (Limits(), Limits(generation_timeout_s=None, episode_timeout_s=600)):
        said = asyncio.run(Conversation(Busy(), limits).sample(5, "session", limit_s=0.01))
        assert said.ids == [97]


@pytest.mark.parametrize(
    "limits", [{"step_timeout_s": 0}, {"generation_timeout_s": -1.0}, {"retries": -1}, {"max_in_flight": 0}]
)
def test_limits_that_allow_nothing_are_refused(limits: dict[str, Any]):
    with pytest.raises(UsageError, match=next(iter(limits))):
        Limits(**limits)


# Failures.


def fails(share: float) -> Any:
    """A policy whose endpoint is down for a share of the tasks."""

    async def ask(conversation: list[Message]) -> None:
        if int(conversation[-1]["content"].split()[-1].rstrip(".")) <= 5 * share:  # type: ignore[union-attr]
            raise ConnectionError("nobody answers")

    return FunctionPolicy("endpoint", ask)


def test_failures_are_counted_by_what_failed_retries_included():
    with RolloutEngine(COUNTER, fails(0.4), Limits(retries=2)) as engine:
        found = engine.collect(groups(10))
    assert engine.tally.failed == {"policy": 12}
    assert engine.tally.tries == 12 + 6
    assert Counts(t.component for g in found for t in g.trajectories) == {"policy": 4, None: 6}


def test_failing_fast_stops_at_the_first_failure_with_its_cause():
    failures = Failures(fail_fast=True)
    with (
        RolloutEngine(COUNTER, fails(0.2), Limits(retries=0), failures=failures) as engine,
        pytest.raises(InfrastructureError, match=r"failed in policy: .*nobody answers"),
    ):
        engine.collect(groups(10))


def test_an_outage_stops_the_rollout_and_names_what_is_down():
    failures = Failures(Backoff(first_s=0.0001), breaker=Breaker(share=0.9, window=16))
    with RolloutEngine(COUNTER, fails(1.0), Limits(retries=1, max_in_flight=8), failures=failures) as engine:
        with pytest.raises(Outage, match=r"16 of the last 16 tries failed \(policy: 16\).*nobody answers"):
            engine.collect(groups(1000))
        assert engine.tally.tries < 1000


def test_an_outage_says_what_everybody_else_waits_for(caplog: pytest.LogCaptureFixture):
    turns = count()

    async def act(conversation: list[Message]) -> Any:
        if not next(turns):
            await asyncio.sleep(3600)
        raise ConnectionError("nobody answers")

    failures = Failures(Backoff(first_s=0.0001), breaker=Breaker(share=0.9, window=16))
    policy = FunctionPolicy("telephone", act)
    with RolloutEngine(COUNTER, policy, Limits(max_in_flight=8), failures=failures) as engine, pytest.raises(Outage):
        engine.collect(groups(1000))
    assert re.search(r"counter/train/\d+#0  waits for policy \(telephone\)", caplog.text)


def test_failures_below_the_breakers_share_stop_nothing_even_if_they_come_first():
    failures = Failures(Backoff(first_s=0.0001), breaker=Breaker(share=0.9, window=16))
    with RolloutEngine(COUNTER, fails(0.4), Limits(retries=0), failures=failures) as engine:
        assert len(engine.collect(groups(200))) == 200


def test_a_group_can_be_used_if_enough_of_it_is_real():
    [group] = groups(1, size=4)
    made = [Trajectory(str(n), "e", "t", "h", 0, "p", [], reason=Reason.ANSWERED) for n in range(4)]
    made[0].reason = made[1].reason = Reason.INFRASTRUCTURE
    found = PlayedGroup(group, made)
    assert found.real == made[2:]
    assert [Failures(at_least=least).is_usable(found) for least in (1, 2, 3)] == [True, True, False]


def test_waits_before_retries_double_up_to_a_bound_and_differ():
    import random

    backoff = Backoff(first_s=1.0, most_s=4.0, jitter=0.5)
    waits = [[backoff.wait_s(retry, random.Random(seed)) for seed in range(50)] for retry in (1, 2, 3, 4)]
    for most, found in zip((1.0, 2.0, 4.0, 4.0), waits, strict=True):
        assert most / 2 <= min(found) < max(found) <= most


# A hang has a name.


@pytest.mark.usefixtures("let_go")
def test_a_report_says_what_every_trajectory_waits_for():
    engine = RolloutEngine(Factory(build=Stuck), ScriptedPolicy())
    playing = threading.Thread(target=lambda: engine.collect(groups(6)))
    playing.start()
    while (report := engine.waits.report()).count("waits for step") != 2:
        time.sleep(0.01)
    assert "counter/train/0#0  waits for step" in report
    assert report in report_all()
    Stuck.go_on.set()
    playing.join()
    engine.close()


def test_a_report_says_that_a_rollout_waits_for_its_first_environment():
    go = threading.Event()

    class Waiting(Counter):
        def __init__(self) -> None:
            go.wait(60)
            super().__init__()

    with RolloutEngine(Factory(build=Waiting), ScriptedPolicy()) as engine:
        playing = threading.Thread(target=lambda: engine.collect(groups(1)))
        playing.start()
        assert eventually(lambda: "the rollout  waits for making (agentgym/guess-v0)" in engine.waits.report())
        go.set()
        playing.join()
        assert engine.waits.report() == "no trajectory waits for anything"


def test_the_first_environment_has_the_time_limit_of_every_other():
    go = threading.Event()

    class Waiting(Counter):
        def __init__(self) -> None:
            go.wait(60)
            super().__init__()

    [found] = played(Factory(build=Waiting), groups(1), reset_timeout_s=0.1)
    go.set()
    assert (found.reason, found.component) == (Reason.RESET_TIME, "making")


HANGS = """
import time
from agentgym.policy import FunctionPolicy
from agentgym.rollout import EnvFactory, Group, RolloutEngine
from agentgym.task import iterate
from tests.counter_env import Counter

def ask(conversation):
    print("asked", flush=True)
    time.sleep(3600)

with RolloutEngine(EnvFactory("tests.counter_env:Counter", {}), FunctionPolicy("endpoint", ask)) as engine:
    engine.collect([Group(task, 0) for task in iterate(Counter.default_tasks(), "train", 1)])
"""


@pytest.mark.real
def test_a_signal_prints_what_a_hanging_process_waits_for():
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, signal.SIGUSR1)
    assert "counter/train/0#0  waits for policy" in process.stderr.readline()
    process.kill()
    process.communicate()


def test_jobs_and_groups_are_played_alike():
    [group] = groups(1, size=3)
    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        found = sorted(t.id for t in engine.trajectories([group]))
        assert found == sorted(t.id for t in engine.trajectories(group.jobs))
    assert group.jobs[0] == Job(group.task, group.seed)


def test_time_limits_are_typed_by_their_names():
    assert timeouts_in(["tool=30", "episode=1.5", "generation=null"]) == {
        "tool_timeout_s": 30,
        "episode_timeout_s": 1.5,
        "generation_timeout_s": None,
    }
    with pytest.raises(UsageError, match="there is no time limit 'epsode'; did you mean 'episode'"):
        timeouts_in(["epsode=3"])
    with pytest.raises(UsageError, match="--timeout tool takes a number of seconds"):
        timeouts_in(["tool=long"])


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "rollouts.md").read_text(encoding="utf-8")
    code, _of_a_tool = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "docs/rollouts.md", "exec"), {})
    *groups_, last = capsys.readouterr().out.splitlines()
    assert sorted(groups_) == sorted(f"guess/train/{index} 4 of 4" for index in range(8))
    assert last == "32 tries, 0 failed"
    assert all(f'"{name}"' in page for name in WORKERS)
    assert all(f"`{component}`" in page for component in Component)
