"""A rollout engine yields whole groups, counts failures by component, and reports waits."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.cli.options import timeouts_in
from agentgym.core.endings import Reason
from agentgym.core.messages import Message
from agentgym.core.policy import FunctionPolicy, Generation, ScriptedPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import (
    Backoff,
    Breaker,
    EnvFactory,
    Failures,
    Group,
    Limits,
    Outage,
    PlayedGroup,
    RolloutEngine,
)
from agentgym.rollout.waits import report_all
from tests.counter_env import Counter, groups
from tests.rollout.slow_envs import Stuck, Talker
from tests.rollout_cases import END, Factory
from tests.waiting import HANG_S, eventually

COUNTER = EnvFactory("tests.counter_env:Counter", {})


# Groups.


def test_groups_come_whole_and_each_once():
    work = groups(7, size=3)
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=4)) as engine:
        played_groups = list(engine.play(work))
    assert sorted(g.group.task.id for g in played_groups) == sorted(g.task.id for g in work)
    assert all([t.attempt for t in g.trajectories] == [0, 1, 2] for g in played_groups)
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
        [played_group] = engine.collect([Group(groups(1)[0].task, 0, size=2, first=4)])
    assert played_group.versions == (4, 5)
    assert PlayedGroup(played_group.group, []).versions == ()


def test_a_caller_with_a_loop_of_its_own_gets_groups_while_the_loop_stays_free():
    free = threading.Event()

    class Waiting(Counter):
        def start(self, task: Any) -> None:
            assert free.wait(HANG_S)
            super().start(task)

    async def play() -> int:
        asyncio.get_running_loop().call_later(0.01, free.set)
        with RolloutEngine(Factory(build=Waiting), ScriptedPolicy()) as engine:
            return len([group async for group in engine.stream(groups(4))])

    assert asyncio.run(play()) == 4


def test_a_closed_engine_plays_no_more():
    engine = RolloutEngine(COUNTER, ScriptedPolicy())
    engine.close()
    engine.close()
    with pytest.raises(UsageError, match="this rollout engine is closed"):
        engine.collect(groups(1))


# Failures.


def fails(share: float) -> Any:
    """Return a policy whose endpoint is down for a share of the tasks."""

    async def ask(conversation: list[Message]) -> None:
        if int(conversation[-1]["content"].split()[-1].rstrip(".")) <= 5 * share:  # type: ignore[union-attr]
            raise ConnectionError("nobody answers")

    return FunctionPolicy("endpoint", ask)


def test_failures_are_counted_by_component_including_retries():
    with RolloutEngine(COUNTER, fails(0.4), Limits(retries=2)) as engine:
        played_groups = engine.collect(groups(10))
    assert engine.tally.failed == {"policy": 12}
    assert engine.tally.tries == 12 + 6
    assert Counts(t.component for g in played_groups for t in g.trajectories) == {"policy": 4, None: 6}


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


def test_failures_below_the_breakers_share_stop_nothing_even_if_they_come_first():
    failures = Failures(Backoff(first_s=0.0001), breaker=Breaker(share=0.9, window=16))
    with RolloutEngine(COUNTER, fails(0.4), Limits(retries=0), failures=failures) as engine:
        assert len(engine.collect(groups(200))) == 200


def test_a_group_is_usable_if_enough_trajectories_did_not_fail():
    [group] = groups(1, size=4)
    trajectories = [Trajectory(str(n), "e", "t", "h", 0, "p", [], reason=Reason.ANSWERED) for n in range(4)]
    trajectories[0].reason = trajectories[1].reason = Reason.INFRASTRUCTURE
    played_group = PlayedGroup(group, trajectories)
    assert played_group.real == trajectories[2:]
    assert [Failures(at_least=least).is_usable(played_group) for least in (1, 2, 3)] == [True, True, False]


# Reports of waits.


@pytest.fixture
def let_go() -> Iterator[None]:
    Stuck.go_on.clear()
    yield
    Stuck.go_on.set()


@pytest.mark.usefixtures("let_go")
def test_a_report_says_what_every_trajectory_waits_for():
    engine = RolloutEngine(Factory(build=Stuck), ScriptedPolicy())
    playing = threading.Thread(target=lambda: engine.collect(groups(6)))
    playing.start()
    assert eventually(lambda: engine.waits.report().count("waits for step") == 2)
    report = engine.waits.report()
    assert "counter/train/0#0  waits for step" in report
    assert report in report_all()
    Stuck.go_on.set()
    playing.join()
    engine.close()


def test_time_limits_are_parsed_by_name():
    assert timeouts_in(["tool=30", "generation=null"]) == {"tool_timeout_s": 30, "generation_timeout_s": None}
    with pytest.raises(UsageError, match="there is no time limit 'epsode'; did you mean 'episode'"):
        timeouts_in(["epsode=3"])
