"""Turns dataset rows into trajectories: chooses the tasks of a training step and runs their rollouts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from agentgym.base.errors import InfrastructureError
from agentgym.core.policy import TokenPolicy
from agentgym.core.task import Task, TaskSource
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Failures, Group, Limits, PlayedGroup, RolloutEngine
from agentgym.rollout.failures import Component
from agentgym.trainers.credit import Credit

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TaskRow:
    """A row of the dataset: a task, and the seed of its episodes."""

    index: int
    """Of the task in the split `train`."""
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> TaskRow:
        """Read a row of `task_rows`."""
        return cls(row["index"], row["seed"])


@dataclass(frozen=True)
class Batch:
    """The groups of one training step, of this process."""

    sampled: Sequence[PlayedGroup]
    """As they were sampled first, for metrics."""
    groups: Sequence[PlayedGroup]
    """To learn from; some may replace sampled groups without reward differences."""

    @property
    def trajectories(self) -> list[Trajectory]:
        """The trajectories to learn from, in the order of the rows."""
        return [trajectory for played in self.groups for trajectory in played.trajectories]


class LearningPolicy(TokenPolicy, Protocol):
    """A policy whose weights change."""

    def updated(self, version: int) -> None:
        """Report that the weights have changed, which invalidates everything the policy has computed.

        Args:
            version: Number of steps that the weights have learned from.
        """
        ...


def task_rows(source: TaskSource, count: int, seed: int) -> Dataset:
    """Return `planned_rows` as a dataset; TRL repeats each row once per member of its group."""
    from agentgym.trainers.trl_seam import dataset_of  # here, so that processes without a trainer start quickly

    return dataset_of([asdict(row) for row in planned_rows(source, count, seed)])


def planned_rows(source: TaskSource, count: int, seed: int) -> list[TaskRow]:
    """Return `count` training tasks; `seed` alone determines their order."""
    draw = random.Random(f"tasks/{seed}")
    size = source.size("train")
    indices = _without_end(count, draw) if size is None else _repeated(size, count, draw)
    return [TaskRow(index, draw.getrandbits(31)) for index in indices]


def _without_end(count: int, draw: random.Random) -> list[int]:
    start = draw.randrange(2**20)
    return list(range(start, start + count))


def _repeated(size: int, count: int, draw: random.Random) -> list[int]:
    """Return `count` indices below `size`: every task once, in random order, before any task repeats."""
    indices: list[int] = []
    while len(indices) < count:
        epoch = list(range(size))
        draw.shuffle(epoch)
        indices += epoch
    return indices[:count]


class BatchRollouts:
    """Runs the groups of a training step.

    Args:
        policy: Samples the turns; shares its weights with the model that is being trained.
        factory: Makes the environments.
        source: Provides the tasks.
        credit: Decides whether the rewards of a group differ (for refilling).
        limits: Bounds on the rollouts.
        refill_rounds: How many times to replace groups whose rewards are all equal with groups of fresh tasks
            (dynamic sampling, DAPO, arXiv 2503.14476).
        seed: Seeds the choice of fresh tasks.
        workers: Where the environments run (`RolloutEngine`).
        failures: How to handle failed episodes (`RolloutEngine`).
    """

    def __init__(
        self,
        policy: LearningPolicy,
        factory: EnvFactory,
        source: TaskSource,
        credit: Credit,
        limits: Limits,
        *,
        refill_rounds: int = 0,
        seed: int = 0,
        workers: str = "threads",
        failures: Failures | None = None,
    ):
        self._policy, self._source, self._credit = policy, source, credit
        self._refill_rounds, self._seed = refill_rounds, seed
        self._engine = RolloutEngine(factory, policy, limits, workers=workers, failures=failures)

    def __call__(self, rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
        """Return the groups of a step. Equal adjacent rows are one group.

        Args:
            rows: The rows of this process.
            step: Number of completed steps.
            training: Whether the model learns from these episodes. Only then, groups without reward differences may be
                replaced, and environments receive the training step.
            first: Position of the first row in the batch of all processes, so that no two rows share random numbers.

        Raises:
            InfrastructureError: Every trajectory failed.
        """
        self._policy.updated(step)
        sampled = self._engine.collect(self._groups(rows, first, step if training else None))
        check_some_real(sampled)
        draw = random.Random(f"refill/{self._seed}/{step}/{first}")
        return Batch(sampled, self._refilled(sampled, draw) if training else sampled)

    @property
    def sampler_s(self) -> float:
        """Seconds in which at least one episode has waited for the policy."""
        return self._engine.waits.seconds(Component.POLICY)

    def close(self) -> None:
        """Close the environments."""
        self._engine.close()

    def _groups(self, rows: Sequence[TaskRow], first: int, step: int | None) -> list[Group]:
        groups: list[Group] = []
        for row, members in groupby(rows):
            size = len(list(members))
            groups.append(Group(self._source.get("train", row.index), row.seed, size, first, step))
            first += size
        return groups

    def _refilled(self, sampled: Sequence[PlayedGroup], draw: random.Random) -> list[PlayedGroup]:
        """Return the groups, with fresh groups in place of those without reward differences."""
        groups = list(sampled)
        for _ in range(self._refill_rounds):
            flat = [place for place, played in enumerate(groups) if self._is_flat(played)]
            if not flat:
                break
            fresh = [
                replace(groups[place].group, task=self._fresh_task(draw), seed=draw.getrandbits(31)) for place in flat
            ]
            for place, played in zip(flat, self._engine.collect(fresh), strict=True):
                groups[place] = played
        return groups

    def _is_flat(self, played: PlayedGroup) -> bool:
        rewards = {reward for reward in self._credit.logged_rewards(played.trajectories) if reward is not None}
        return len(rewards) < 2

    def _fresh_task(self, draw: random.Random) -> Task:
        size = self._source.size("train")
        return self._source.get("train", draw.randrange(2**20, 2**30) if size is None else draw.randrange(size))


def check_some_real(groups: Sequence[PlayedGroup]) -> None:
    """Raise `InfrastructureError` if every trajectory failed."""
    trajectories = [trajectory for played in groups for trajectory in played.trajectories]
    if trajectories and all(trajectory.failed for trajectory in trajectories):
        first = trajectories[0]
        message = f"all {len(trajectories)} episodes of a step failed in {first.component}; {first.error}"
        raise InfrastructureError(message)
