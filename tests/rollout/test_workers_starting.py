"""Worker processes forked from a template behave like fresh ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from agentgym.rollout.workers.processes import ProcessWorkers
from agentgym.rollout.workers.starting import OneByOne, Starter, Template
from tests.counter_env import groups
from tests.rollout_cases import play_groups
from tests.waiting import HANG_S

pytestmark = pytest.mark.real

STARTERS = [
    OneByOne,
    pytest.param(Template, marks=pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")),
]


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=HANG_S)
    assert alive == []


@pytest.mark.parametrize("make", STARTERS)
def test_episodes_are_the_same_however_processes_start(make: Callable[[], Starter], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.workers.processes.make_starter", make)
    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    workers = ProcessWorkers(factory, 2, processes=2)
    trajectories = play_groups(factory, groups(6), workers=workers, max_in_flight=2)
    assert all(t.success for t in trajectories)
    assert os.getpid() not in {t.details["pid"] for t in trajectories}


@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
def test_a_dead_template_is_replaced():
    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    workers = ProcessWorkers(factory, 1, processes=1, episodes=2)
    with RolloutEngine(factory, ScriptedPolicy(), Limits(max_in_flight=1), workers=workers) as engine:
        (before,) = engine.collect(groups(1))[0].trajectories
        template = psutil.Process(before.details["pid"]).parent()
        assert template is not None
        assert template.pid != os.getpid()
        template.kill()
        after = [t for group in engine.collect(groups(5)) for t in group.trajectories]
    assert all(t.success for t in after)
    assert after[0].details["pid"] == before.details["pid"] != after[1].details["pid"]


def test_processes_that_were_forked_draw_different_random_numbers():
    factory = EnvFactory("tests.rollout.worker_envs:Drawing", {})
    workers = ProcessWorkers(factory, 1, processes=1, episodes=1)
    draws = [t.details["drawn"] for t in play_groups(factory, groups(3), workers=workers, max_in_flight=1)]
    assert len({first for first, _ in draws}) == len({other for _, other in draws}) == 3
