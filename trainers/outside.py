"""Trains on external agents: they play through a gateway, and the trainer learns from the recorded conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentgym.core.task import Task, TaskSource
from agentgym.core.trajectory import Trajectory
from agentgym.interop.served.gateway import Gateway, GatewaySession, SessionTask
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers.batches import Batch, TaskRow, check_some_real


@dataclass(frozen=True)
class Assignment:
    """An episode for an agent to play, and its session at the gateway."""

    task: Task
    seed: int
    session: GatewaySession


Play = Callable[[Sequence[Assignment]], Sequence[Trajectory | None]]
"""Lets agents play episodes; returns the records of their environments in the same order, `None` for a lost record."""


class OutsideRollouts:
    """Rollouts for `AgentGRPOTrainer`, played by external agents.

    Each episode is one row: if an agent rewrites its history, the trainer learns from the last conversation.

    Args:
        gateway: Serves the policy whose weights are trained.
        source: The tasks.
        play: Runs the agents.
        env_id: The environment, for records.
    """

    def __init__(self, gateway: Gateway, source: TaskSource, play: Play, *, env_id: str):
        self._gateway, self._source, self._play = gateway, source, play
        self._env_id = env_id

    def __call__(self, rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
        """Return the groups of a step. Equal adjacent rows are one group.

        Args:
            rows: The rows of this process.
            step: Number of completed steps.
            training: Whether the model learns from these episodes.
            first: Number of the first row in the batch of all processes.

        Raises:
            InfrastructureError: Every episode failed.
        """
        self._gateway.updated(step)
        groups: list[Group] = []
        for row, members in groupby(rows):
            size = len(list(members))
            groups.append(
                Group(self._source.get("train", row.index), row.seed, size, first, step if training else None)
            )
            first += size
        played = self.played(groups, step)
        check_some_real(played)
        return Batch(played, played)

    def played(self, groups: Sequence[Group], step: int) -> list[PlayedGroup]:
        """Let agents play all groups at the same time; `step` numbers their sessions."""
        assignments = [self._assigned(group, job.attempt, step) for group in groups for job in group.jobs]
        records = self._play(assignments)
        ended = iter([self._ended(assignment, record) for assignment, record in zip(assignments, records, strict=True)])
        return [PlayedGroup(group, [next(ended) for _ in range(group.size)]) for group in groups]

    def close(self) -> None:
        """Do nothing: the caller owns the gateway and the agents."""

    def _assigned(self, group: Group, attempt: int, step: int) -> Assignment:
        played = SessionTask(self._env_id, group.task.id, group.seed, group.training_step)
        return Assignment(group.task, group.seed, self._gateway.session(f"v{step}-{attempt}", played))

    def _ended(self, assignment: Assignment, record: Trajectory | None) -> Trajectory:
        session = assignment.session
        if record is None or not session.has_calls:
            session.fail("the agent has no record" if record is None else "the agent has called no model")
        else:
            session.end(record)
        return self._gateway.close_session(session)[-1]
