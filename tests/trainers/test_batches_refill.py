"""Which tasks replace groups that teach nothing, from where, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("datasets", reason="needs the [train] extra")

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import EnvFactory, Group, Job, Limits, PlayedGroup
from agentgym.trainers.batches import Batch, BatchRollouts, TaskRow, planned_rows
from agentgym.trainers.credit import Credit

TASKS_OF_A_RUN = 2**20
"""Endless sources: a run's own tasks begin below this number, those that replace flat groups lie above it."""


class Asked:
    """A task source that records the requested tasks."""

    def __init__(self, size: int | None):
        self.indices: list[int] = []
        self.size_ = size

    def source(self) -> GeneratedTasks:
        return GeneratedTasks("t", self._generate, {"train": self.size_})

    def _generate(self, split: str, index: int) -> Task:
        self.indices.append(index)
        return Task(f"t/{split}/{index}", split, f"{index}")


class Played(BatchRollouts):
    """Rollouts whose outcomes are given: by task number, one for each attempt of its group."""

    def __init__(self, outcomes: Mapping[int, Sequence[float | None]], size: int | None = None, **settings: Any):
        self.asked, self.rounds, self.outcomes = Asked(size), list[list[Job]](), outcomes
        factory = EnvFactory("guess", {})
        credit = Credit(scheme=GuessEnv.scheme)
        super().__init__(Silent(), factory, self.asked.source(), credit, Limits(), **settings)  # type: ignore[arg-type]

        self._engine.close()
        self._engine = self  # type: ignore[assignment]

    def collect(self, groups: Sequence[Group]) -> list[PlayedGroup]:
        self.rounds.append([job for group in groups for job in group.jobs])
        return [PlayedGroup(group, [self._played(job) for job in group.jobs]) for group in groups]

    def _played(self, job: Job) -> Trajectory:
        index = int(job.task.prompt)
        outcome = self.outcomes.get(index, self.outcomes[-1])[job.attempt % 2]
        reason = Reason.INFRASTRUCTURE if outcome is None else Reason.ANSWERED
        failure: dict[str, Any] = {"error": "it broke", "component": "step"} if outcome is None else {}
        turns = [Turn("said", [], {"outcome": outcome or 0.0}, 0.0)]
        ids = (job.id, "env", job.task.id, "hash", job.seed, "policy", [])
        return Trajectory(*ids, turns=turns, reason=reason, **failure)


class Silent:
    """A policy without requests."""

    def updated(self, version: int) -> None: ...


def rows(*indices: int) -> list[TaskRow]:
    return [TaskRow(index, seed=index) for index in indices for _ in range(2)]


def names(batch: Batch) -> list[int]:
    return [int(t.task_id.rpartition("/")[2]) for t in batch.trajectories]


def test_a_group_is_replaced_as_often_as_asked_and_no_more():
    flat = Played({-1: (0.0, 0.0)}, refill_rounds=3)
    result = flat(rows(1, 2), 0, training=True)
    assert [len(jobs) for jobs in flat.rounds] == [4, 4, 4, 4]
    assert len({*names(result), 1, 2}) == 4


def test_replacing_ends_when_every_group_teaches_something():
    batch = Played({1: (0.0, 1.0), 2: (0.0, 0.0), -1: (1.0, 0.0)}, refill_rounds=5)
    result = batch(rows(1, 2), 0, training=True)
    assert [len(jobs) for jobs in batch.rounds] == [4, 2]
    assert names(result)[:2] == [1, 1]
    assert [t.outcome for t in result.trajectories] == [0.0, 1.0, 1.0, 0.0]
    assert [t.outcome for played in result.sampled for t in played.trajectories] == [0.0, 1.0, 0.0, 0.0]


def test_a_failed_attempt_does_not_make_a_difference_and_two_others_do():
    batch = Played({1: (0.0, None), 2: (0.0, 1.0), -1: (0.0, 1.0)}, refill_rounds=1)
    assert names(batch(rows(1, 2), 0, training=True))[2:] == [2, 2]
    assert [job.attempt for job in batch.rounds[1]] == [0, 1]


def test_a_fresh_task_is_one_for_its_whole_group_with_attempts_of_its_own():
    batch = Played({-1: (0.0, 0.0)}, refill_rounds=1)
    batch(rows(1, 2), 3, training=True, first=6)
    first, again = batch.rounds
    assert [job.attempt for job in first] == [6, 7, 8, 9] == [job.attempt for job in again]
    assert again[0].task == again[1].task != again[2].task == again[3].task
    assert again[0].seed == again[1].seed != again[2].seed


def test_fresh_tasks_of_an_endless_source_are_none_that_a_run_or_its_warm_start_has():
    batch = Played({-1: (0.0, 0.0)}, refill_rounds=200)
    fresh = set(names(batch(rows(1), 0, training=True))) | set(batch.asked.indices) - {1}
    assert len(fresh) == 200
    assert min(fresh) >= TASKS_OF_A_RUN
    assert max(fresh) < 2**30
    # Most of the room above is used: two processes or two steps hardly ever draw the same.
    assert max(fresh) > 2**29
    starts = [planned_rows(Asked(None).source(), 1, seed)[0].index for seed in range(50)]
    assert all(0 <= start < TASKS_OF_A_RUN for start in starts)
    assert max(starts) > TASKS_OF_A_RUN // 2


def test_fresh_tasks_of_a_finite_source_are_among_its_own():
    batch = Played({-1: (0.0, 0.0)}, size=3, refill_rounds=30)
    batch(rows(1), 0, training=True)
    assert set(batch.asked.indices) == {0, 1, 2}


def test_every_process_and_every_step_draws_fresh_tasks_of_its_own():
    def fresh(version: int, first: int, seed: int = 0) -> list[int]:
        return names(Played({-1: (0.0, 0.0)}, refill_rounds=1, seed=seed)(rows(1), version, training=True, first=first))

    assert fresh(0, 0) == fresh(0, 0)
    assert len({tuple(all_rows) for all_rows in (fresh(0, 0), fresh(1, 0), fresh(0, 2), fresh(0, 0, seed=1))}) == 4


def test_a_step_of_some_failures_goes_on_and_one_of_nothing_else_does_not():
    assert len(Played({1: (0.0, None), -1: (0.0, 1.0)})(rows(1), 0, training=True).trajectories) == 2
    with pytest.raises(InfrastructureError, match="all 2 episodes of a step failed in step; it broke"):
        Played({-1: (None, None)})(rows(1), 0, training=True)
    assert Played({})([], 0, training=True).trajectories == []


def test_every_row_has_a_seed_of_its_own():
    all_rows = planned_rows(Asked(2).source(), 4, 0)
    assert sorted(row.index for row in all_rows) == [0, 0, 1, 1]
    assert len({row.seed for row in all_rows}) == 4
