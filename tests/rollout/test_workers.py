"""The same seeds give the same trajectories in all workers, and lost episodes are retried."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentgym.base.errors import MissingExtra, UsageError
from agentgym.core.endings import Reason
from agentgym.core.policy import RandomPolicy, ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.task import iterate
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.rollout import EnvFactory, Group, Job, Limits, RolloutEngine
from agentgym.rollout.workers.processes import ProcessWorkers
from tests.counter_env import Counter, groups
from tests.rollout.worker_processes import CASES, in_every_environment, play_with, workers_alive
from tests.rollout_cases import play_groups
from tests.waiting import HANG_S

pytestmark = pytest.mark.real


@pytest.fixture
def children() -> Iterator[None]:
    """Assert that no worker process is left."""
    assert workers_alive() == []
    yield
    _, alive = psutil.wait_procs(workers_alive(), timeout=HANG_S)
    assert alive == []


def test_every_class_of_environment_is_among_the_cases():
    assert {ENVIRONMENTS[env_id][0] for env_id, _ in CASES} == {where for where, _ in ENVIRONMENTS.values()}


@pytest.mark.usefixtures("children")
@in_every_environment
def test_the_same_seeds_give_the_same_trajectories_wherever_the_environments_run(env_id: str, kwargs: dict[str, Any]):
    env = make(env_id, **kwargs)
    work = [Group(task, seed) for seed, task in enumerate(iterate(env.tasks, "train", 2))]
    env.close()
    factory = EnvFactory(env_id, kwargs)
    for policy in (ScriptedPolicy(), RandomPolicy()):
        expected = play_with(factory, policy, work, "threads")
        assert not any(t.failed for t in expected)
        for workers in ("inline", "processes"):
            assert play_with(factory, policy, work, workers) == expected


@pytest.mark.usefixtures("children")
@pytest.mark.parametrize("hangs", [False, True])
def test_episodes_of_a_dead_process_are_retried(tmp_path: Path, hangs: bool):
    factory = EnvFactory("tests.rollout.worker_envs:Killing", {"folder": str(tmp_path), "hangs": hangs})
    limits = Limits(max_in_flight=6, retries=1, step_timeout_s=3.0)
    workers = ProcessWorkers(factory, 6, processes=2)
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=workers) as engine:
        played_groups = engine.collect(groups(12))
    assert [t.reason for group in played_groups for t in group.trajectories] == [Reason.ANSWERED] * 12
    assert len(list(tmp_path.iterdir())) > 0
    assert engine.tally.failed["step" if hangs else "worker"] > 0


@pytest.mark.usefixtures("children")
def test_a_process_is_replaced_after_its_share_of_episodes():
    factory = EnvFactory("tests.rollout.worker_envs:Located", {})
    workers = ProcessWorkers(factory, 1, processes=1, episodes=2)
    pids = [t.details["pid"] for t in play_groups(factory, groups(6), workers=workers, max_in_flight=1)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] == pids[5]
    assert os.getpid() not in pids


@pytest.mark.usefixtures("children")
def test_an_environment_that_processes_cannot_import_is_refused_in_one_line():
    class Local(Counter):
        pass

    class LocalFactory(EnvFactory):
        pass

    with pytest.raises(UsageError, match="the environment factory cannot be sent to another process"):
        RolloutEngine(LocalFactory("x", {}), ScriptedPolicy(), workers="processes")
    with (
        pytest.raises(UsageError, match="unknown environment 'no-such-env'"),
        RolloutEngine(EnvFactory("no-such-env", {}), ScriptedPolicy(), workers="processes") as engine,
    ):
        engine.collect(groups(1))


def test_unknown_or_missing_workers_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for workers, message in (
        ("threds", r"there are no workers 'threds'.*threads.*inline, threads, processes, ray"),
        ("ray", r"'ray' is not installed; run: pip install 'agentgym-suite\[ray\]'"),
    ):
        with pytest.raises((UsageError, MissingExtra), match=message):
            RolloutEngine(EnvFactory("guess", {}), ScriptedPolicy(), workers=workers)


def test_leaving_early_leaves_no_process(children: None):
    source = Counter.default_tasks()
    endless = (Job(source.get("train", index), index) for index in range(10**9))
    with RolloutEngine(
        EnvFactory("tests.counter_env:Counter", {}), ScriptedPolicy(), Limits(max_in_flight=4), workers="processes"
    ) as engine:
        assert next(iter(engine.trajectories(endless))).success
