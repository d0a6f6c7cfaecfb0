"""Checks the gold of tasks: the environment's solution is played, and its own grader must give full marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentgym.evaluation import evaluation_jobs
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from agentgym.task import Task
from agentgym.trajectory import Trajectory


@dataclass(frozen=True)
class GoldFault:
    """A task whose solution did not get full marks."""

    task_id: str
    reason: str
    """Why not."""
    failed: bool
    """Whether something around the task failed, so that its gold could not be checked."""


def check_gold(
    factory: EnvFactory,
    tasks: Sequence[Task],
    *,
    limits: Limits | None = None,
    seed: int = 0,
    workers: str = "threads",
    on_done: Callable[[], object] = lambda: None,
) -> Iterator[GoldFault]:
    """Play the solution of each task and yield the tasks that it did not solve, as episodes finish.

    Args:
        factory: Makes the environments.
        tasks: The tasks to check.
        limits: Limits of each episode.
        seed: Random seed of the episodes.
        workers: Where the environments run (`RolloutEngine`).
        on_done: Called after each task.

    Raises:
        UsageError: The environment cannot be made, or lacks a solution.
    """
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=workers) as engine:
        for trajectory in engine.trajectories(evaluation_jobs(tasks, 1, seed)):
            on_done()
            if not trajectory.success:
                yield _fault(trajectory)


def _fault(trajectory: Trajectory) -> GoldFault:
    if trajectory.failed:
        return GoldFault(trajectory.task_id, f"{trajectory.reason}: {trajectory.error}", failed=True)
    reason = f"the solution got outcome {trajectory.outcome:g} ({trajectory.reason})"
    return GoldFault(trajectory.task_id, reason, failed=False)
