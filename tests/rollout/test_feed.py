"""Groups that arrive while others are played, and episodes that pause between two turns."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.policy import Generation, ScriptedPolicy
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from agentgym.rollout.engine import EngineClosed
from tests.counter_env import Counter, groups
from tests.rollout.slow_envs import Stuck, Talker
from tests.rollout_cases import END, Factory
from tests.waiting import eventually

COUNTER = EnvFactory("tests.counter_env:Counter", {})


def names(engine_groups: Sequence[Any]) -> list[str]:
    return [played.group.task.id for played in engine_groups]


def test_a_feed_plays_groups_that_arrive_later_and_after_a_lull():
    work = groups(6, size=2)
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=3)) as engine:
        feed = engine.feed()
        for some in (work[:1], work[1:3], work[3:]):
            feed.add(some)
            assert sorted(names([feed.next() for _ in some])) == sorted(group.task.id for group in some)
        assert feed.ready() == []


def test_a_feed_starts_groups_in_the_order_of_their_arrival():
    with RolloutEngine(COUNTER, ScriptedPolicy(), Limits(max_in_flight=1)) as engine:
        feed, work = engine.feed(), groups(8, size=2)
        feed.add(work[:5])
        feed.add(work[5:])
        assert names([feed.next() for _ in work]) == [group.task.id for group in work]


def test_a_stuck_group_holds_up_none_of_the_others():
    Stuck.go_on.clear()
    with RolloutEngine(Factory(build=Stuck), ScriptedPolicy()) as engine:
        feed = engine.feed()
        feed.add(groups(4))  # the first one is stuck
        assert sorted(names([feed.next() for _ in range(3)])) == [f"counter/train/{index}" for index in (1, 2, 3)]
        Stuck.go_on.set()
        assert names([feed.next()]) == ["counter/train/0"]


def test_an_error_of_the_work_reaches_the_caller_every_time():
    work = groups(1)[0]
    with RolloutEngine(COUNTER, ScriptedPolicy()) as engine:
        feed = engine.feed()
        feed.add([Group(work.task, 0), Group(work.task, 0)])
        for _ in range(2):
            with pytest.raises(UsageError, match="two jobs are called"):
                feed.next()


def test_closing_the_engine_ends_a_wait_for_a_feed():
    engine = RolloutEngine(COUNTER, ScriptedPolicy())
    feed = engine.feed()
    threading.Timer(0.05, engine.close).start()
    with pytest.raises(EngineClosed):
        feed.next()


class Versioned(Talker):
    """Samples one token in each turn, and records the version of each; a turn lasts until `may_end`."""

    def __init__(self) -> None:
        super().__init__()
        self.version, self.versions, self.may_end = 0, list[int](), threading.Event()

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        self.versions.append(self.version)
        while not self.may_end.is_set():
            await asyncio.sleep(0.001)
        return Generation([97, END], [-1.0, -1.0], "stop", self.versions[-1])


def test_a_pause_waits_for_the_turns_and_holds_the_next_ones():
    policy = Versioned()
    with RolloutEngine(Factory(build=Counter, kwargs={"max_turns": 3}), policy) as engine:
        feed = engine.feed()
        feed.add(groups(1, size=2))
        assert eventually(lambda: len(policy.versions) == 2)
        pausing = threading.Thread(target=engine.pause)
        pausing.start()
        policy.version = 1
        assert pausing.is_alive()
        policy.may_end.set()
        pausing.join()
        assert policy.versions == [0, 0]
        engine.resume()
        played = feed.next()
    assert sorted(policy.versions) == [0, 0, 1, 1, 1, 1]
    assert played.versions == (0, 1)


def test_the_time_of_a_pause_does_not_count_for_the_limit_of_an_episode(monkeypatch: pytest.MonkeyPatch):
    policy = Versioned()
    policy.may_end.set()
    limits = Limits(episode_timeout_s=5)
    with RolloutEngine(Factory(build=Counter, kwargs={"max_turns": 3}), policy, limits) as engine:
        engine.pause()
        feed = engine.feed()
        feed.add(groups(1))
        assert not eventually(lambda: bool(policy.versions), 0.05)
        clock = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 10)
        engine.resume()
        [trajectory] = feed.next().trajectories
    assert len(trajectory.model_turns) == 3
    assert str(trajectory.reason) == "format_errors"
