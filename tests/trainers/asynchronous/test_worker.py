"""The process that plays groups: what it plays, in which order, and what happens when it dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from queue import Empty
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.rollout import EnvFactory
from agentgym.trainers.asynchronous.admission import Admission, row_at
from agentgym.trainers.asynchronous.playing import GroupPlayer
from agentgym.trainers.asynchronous.steps import samples_of
from agentgym.trainers.asynchronous.worker import EngineWorker
from agentgym.trainers.credit import Credit
from tests.trainers.asynchronous.learner import Learner
from tests.waiting import HANG_S, eventually

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]


def worker_of(env: str, policy: Learner, groups: int = 2) -> EngineWorker:
    player = GroupPlayer(EnvFactory(env, {}), policy, Credit(), group_size=2)
    return EngineWorker(
        player, lambda number: row_at(number, None, 0), Admission(groups, max_staleness=1), samples_of=samples_of
    )


@pytest.fixture
def started(letters: Any) -> Iterator[Callable[..., EngineWorker]]:
    """Makes workers that are stopped after the test."""
    workers: list[EngineWorker] = []

    def make(policy: Learner, env: str = "letters_env:LettersEnv", **state: Any) -> EngineWorker:
        worker = worker_of(env, policy)
        if state:
            worker.restore(state)
        worker.update_model_version(0)
        worker.start()
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.stop()


def test_no_group_is_lost_and_none_comes_twice_when_the_process_dies_and_the_run_resumes(started: Any):
    worker, taken = started(Learner(pause_s=0.05)), []
    for step in range(4):
        if step in (1, 3):  # while groups are being played
            os.kill(worker.pid, signal.SIGKILL)
        played = worker.take(2)
        taken += [group.number for group in played]
        assert all(len(group.group.trajectories) == 2 for group in played)
        worker.update_model_version(step + 1)
    state = worker.state
    assert sorted([*taken, *state["open"]]) == list(range(state["next"]))
    worker.take(2)  # of a step that is interrupted
    worker.stop()
    resumed = started(Learner(), **state)
    for step in range(4, 6):
        taken += [group.number for group in resumed.take(2)]
        resumed.update_model_version(step + 1)
    assert len(taken) == len(set(taken)) == 12
    assert sorted([*taken, *resumed.state["open"]]) == list(range(resumed.state["next"]))


def test_turns_have_the_version_that_sampled_them_and_no_more_groups_start_than_may_be_open(started: Any):
    worker = started(Learner())
    while len(worker._ready) < 4:
        time.sleep(0.01)
    assert worker.state == {"next": 4, "open": [0, 1, 2, 3]}
    assert [group.number for group in worker.take(2)] == [0, 1]
    worker.update_model_version(5)
    assert worker.state["next"] == 6
    groups = worker.take(4)
    assert [group.group.versions for group in groups] == [(0,), (0,), (5,), (5,)]
    assert [group.group.group.training_step for group in groups] == [0, 0, 5, 5]


def test_it_serves_samples_as_a_queue(started: Any):
    worker = started(Learner())
    assert eventually(lambda: len(worker._ready) == 4)  # groups finish in any order
    sample = worker.rollout_buffer.get(timeout=HANG_S)
    assert (sample.group_id, sample.model_version) == (0, 0)
    assert sample.completion_mask.sum() == 2  # the turns of an episode have the same advantage here
    assert worker.rollout_buffer.qsize() == 1
    for _ in range(7):
        worker.rollout_buffer.get(timeout=HANG_S)
    with pytest.raises(Empty):
        worker.rollout_buffer.get(timeout=0.01)


def test_what_breaks_it_reaches_the_trainer(started: Any):
    with pytest.raises((UsageError, InfrastructureError), match="nowhere"):
        started(Learner(), "nowhere:Env").take(1)
    broken = started(Learner())
    for _ in range(4):
        died = broken.pid
        os.kill(died, signal.SIGKILL)
        while broken.pid == died and broken._error is None:
            time.sleep(0.01)
    with pytest.raises(InfrastructureError, match="died 4 times"):
        broken.take(8)


def test_groups_that_teach_nothing_make_room_for_others_before_the_update(started: Any):
    worker = started(Learner())
    flat = worker.take(4)
    assert worker.state["next"] == 4
    worker.pass_over(played.number for played in flat)
    assert [played.number for played in worker.take(4)] == [4, 5, 6, 7]
    worker.update_model_version(1)
    assert worker.state == {"next": 12, "open": [8, 9, 10, 11]}
