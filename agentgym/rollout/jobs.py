"""The work of a rollout: jobs (one trajectory each), and groups of jobs that start from the same state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.making import closed_after
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory


@dataclass(frozen=True)
class Job:
    """One trajectory to make. Jobs of the same task and seed start from the same state."""

    task: Task
    seed: int
    attempt: int = 0
    training_step: int | None = None
    """The trainer's step, for environments with a curriculum; `None` outside training."""

    @property
    def id(self) -> str:
        """The id of the trajectory."""
        return f"{self.task.id}#{self.attempt}"


@dataclass(frozen=True)
class Group:
    """Trajectories of one task and seed: they start from the same state, and their rewards are compared."""

    task: Task
    seed: int
    size: int = 1
    """Number of trajectories."""
    first: int = 0
    """Attempt number of the first one. Attempts with the same number at the same task share random numbers."""
    training_step: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise UsageError(f"a group has at least 1 trajectory, not {self.size!r}")

    @property
    def jobs(self) -> list[Job]:
        """The jobs of the group, in order."""
        attempts = range(self.first, self.first + self.size)
        return [Job(self.task, self.seed, attempt, self.training_step) for attempt in attempts]


@dataclass(frozen=True)
class PlayedGroup:
    """A group with all of its trajectories, failed ones included."""

    group: Group
    trajectories: Sequence[Trajectory]
    """In the order of `group.jobs`."""

    @property
    def real(self) -> list[Trajectory]:
        """The trajectories that did not fail. Only these may be compared or trained on."""
        return [trajectory for trajectory in self.trajectories if not trajectory.failed]

    @property
    def versions(self) -> tuple[int, ...]:
        """The policy versions that sampled the group's tokens, ascending; empty for chat policies."""
        tokens = (trajectory.tokens for trajectory in self.trajectories)
        return tuple(sorted({version for ids in tokens if ids for version in ids.versions if version >= 0}))


@dataclass(frozen=True)
class EnvFactory:
    """Makes environments of one kind; picklable."""

    env_id: str
    kwargs: dict[str, Any]

    def __call__(self) -> Env:
        """Make a fresh environment."""
        from agentgym.core.registry import make

        return make(self.env_id, **self.kwargs)

    def figures(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Return the environment's own metrics on trajectories, besides success."""
        with closed_after(self()) as env:
            return env.figures(trajectories)
