"""Turns dataset rows into trajectories: chooses the tasks of a training step and runs their rollouts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from datasets import Dataset

from agentgym.errors import InfrastructureError
from agentgym.policy import TokenPolicy
from agentgym.rollout import EnvFactory, EnvPool, Job, Limits, collect
from agentgym.task import Task, TaskSource
from agentgym.trainers.credit import Credit
from agentgym.trajectory import Trajectory


class LearningPolicy(TokenPolicy, Protocol):
    """A policy whose weights change."""

    def updated(self, version: int) -> None:
        """Report that the weights have changed: the policy must discard everything it computed before."""
        ...


def task_rows(source: TaskSource, count: int, seed: int, split: str = "train") -> Dataset:
    """Return a dataset of `count` tasks, each given by its index in `split` and the seed of its episodes.

    `seed` alone determines the order. TRL repeats each row once per member of its group.
    """
    draw = random.Random(f"tasks/{seed}")
    size = source.size(split)
    indices = _without_end(count, draw) if size is None else _repeated(size, count, draw)
    return Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": f"{split}/{index}"}],
                "index": index,
                "env_seed": draw.getrandbits(31),
            }
            for index in indices
        ]
    )


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
    """Runs the trajectories of a training step.

    Args:
        policy: Samples the turns; shares its weights with the model that is being trained.
        factory: Makes the environments.
        source: Provides the tasks.
        credit: Decides whether the rewards of a group differ (for refilling).
        limits: Bounds on the rollouts.
        refill_rounds: How many times to replace groups whose rewards are all equal with groups of fresh tasks
            (dynamic sampling, DAPO, arXiv 2503.14476).
        seed: Seeds the choice of fresh tasks.
        updates_per_step: Weight updates per training step; converts updates into steps.
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
        updates_per_step: int = 1,
    ):
        self._policy, self._factory, self._source = policy, factory, source
        self._credit, self._limits = credit, limits
        self._refill_rounds, self._seed, self._updates_per_step = refill_rounds, seed, updates_per_step
        self._pool = EnvPool(factory)
        self.first_round: list[Trajectory] = []
        """The trajectories of the last step before any group was replaced; metrics are computed from them."""

    def __call__(
        self, rows: Sequence[dict[str, Any]], version: int, *, training: bool, first: int = 0
    ) -> list[Trajectory]:
        """Return one trajectory per row. Rows with the same index and seed are one group.

        Args:
            rows: The rows of this process.
            version: Number of weight updates so far.
            training: Whether the model learns from these episodes. If so, groups that teach nothing may be replaced,
                and environments receive the training step.
            first: Number of the first row in the batch of all processes, so that no two rows share random numbers.

        Raises:
            InfrastructureError: Every trajectory failed; if training continued, it would only seem to work.
        """
        self._policy.updated(version)
        step = version // self._updates_per_step if training else None
        jobs = [
            Job(self._source.get("train", row["index"]), row["env_seed"], attempt, step)
            for attempt, row in enumerate(rows, start=first)
        ]
        trajectories = self._run(jobs)
        if trajectories and all(t.failed for t in trajectories):
            raise InfrastructureError(f"all {len(trajectories)} episodes of a step failed; {trajectories[0].error}")
        self.first_round = list(trajectories)
        if training:
            self._refill(trajectories, jobs, random.Random(f"refill/{self._seed}/{version}/{first}"), first)
        return trajectories

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()

    def _run(self, jobs: list[Job]) -> list[Trajectory]:
        return asyncio.run(collect(jobs, self._policy, self._factory, self._limits, self._pool))

    def _refill(self, trajectories: list[Trajectory], jobs: list[Job], draw: random.Random, first: int) -> None:
        """Replace groups that teach nothing, in place."""
        for _ in range(self._refill_rounds):
            flat = [rows for rows in _groups(jobs) if self._is_flat([trajectories[row] for row in rows])]
            if not flat:
                return
            for rows in flat:
                task, seed = self._fresh_task(draw), draw.getrandbits(31)
                for row in rows:
                    jobs[row] = replace(jobs[row], task=task, seed=seed)
            wanted = [row for rows in flat for row in rows]
            for row, trajectory in zip(wanted, self._run([jobs[row] for row in wanted]), strict=True):
                trajectories[row] = trajectory

    def _is_flat(self, group: list[Trajectory]) -> bool:
        rewards = {reward for reward in self._credit.logged_rewards(group) if reward is not None}
        return len(rewards) < 2

    def _fresh_task(self, draw: random.Random) -> Task:
        size = self._source.size("train")
        return self._source.get("train", draw.randrange(2**20, 2**30) if size is None else draw.randrange(size))


def _groups(jobs: Sequence[Job]) -> list[list[int]]:
    """Return the row numbers of each group: consecutive jobs of the same task and seed."""
    groups: list[list[int]] = []
    for row, job in enumerate(jobs):
        if groups and (jobs[row - 1].task.id, jobs[row - 1].seed) == (job.task.id, job.seed):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
