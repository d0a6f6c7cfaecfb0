"""Rescores recorded trajectories with the current graders, by replaying their actions without the model.

The recording is not changed; the new grade is an annotation (`agentgym.eval.results.annotations`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason, reason_data
from agentgym.core.engine.steps import StepResult, details_in, reset_options
from agentgym.core.env import Env
from agentgym.core.replay import played_move
from agentgym.core.task import Task, may_be_same
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.eval.results.annotations import Annotation

KIND = "grade"
"""Kind of the annotations."""


@dataclass(frozen=True)
class Rescored:
    """A trajectory with its new rewards, ending and details; observations and actions are the recorded ones."""

    trajectory: Trajectory
    before: Trajectory
    diverged: int | None
    """The first turn whose observation differs from the recorded one, from 1 (0 is the opening), or `None`.

    After it, the recorded actions respond to observations that the policy never saw.
    """

    @property
    def changed(self) -> bool:
        """Whether any reward or the ending differs."""
        new, old = self.trajectory, self.before
        return new.channels != old.channels or new.reward != old.reward or new.reason != old.reason

    def annotation(self) -> Annotation:
        """Return the new grade as an annotation of the recording."""
        new = self.trajectory
        data = {
            "rewards": new.channels,
            "reward": [turn.reward for turn in new.turns],
            "success": new.success,
            "reason": None if new.reason is None else reason_data(new.reason),
            "details": new.details,
            "diverged": self.diverged,
        }
        return Annotation(new.id, new.training_step, KIND, data)


def rescore(trajectory: Trajectory, env: Env, task: Task | None = None) -> Rescored:
    """Replay the recorded actions and return the trajectory with its current rewards.

    Args:
        trajectory: The recording.
        env: The environment, with the graders and the scheme to score with.
        task: The task; by default looked up in the environment's own tasks.

    Raises:
        UsageError: The trajectory failed, so there is nothing to score, or the task has changed.
        InfrastructureError: Something around the grader failed.
    """
    if trajectory.failed:
        raise UsageError(f"{trajectory.id!r} failed ({trajectory.reason}): there is nothing to score")
    options = reset_options(task or trajectory.task_id, trajectory.training_step)
    opening, info = env.reset(seed=trajectory.seed, options=options)
    if not may_be_same(env.task.hash, trajectory.task_hash):
        raise UsageError(
            f"task {trajectory.task_id!r} has changed since {trajectory.id!r} was recorded; evaluate it again"
        )
    diverged = None if opening == trajectory.opening else 0
    turns: list[Turn] = []
    for number, turn in enumerate(trajectory.turns, start=1):
        result = _again(trajectory, number, env)
        info = result.info
        turns.append(replace(turn, rewards=dict(info["rewards"]), reward=result.reward))
        if diverged is None and result.observation != turn.answered:
            diverged = number
        if env.reason is not None:
            break
    if env.reason is None and trajectory.reason is not None:  # the recorded end no longer ends the episode
        result = env.interrupt(Reason.GAVE_UP)
        info = result.info
        turns.append(Turn(None, result.observation, dict(info["rewards"]), result.reward))
    scored = replace(trajectory, turns=turns, reason=env.reason, details=details_in(info))
    return Rescored(scored, trajectory, diverged)


def _again(trajectory: Trajectory, number: int, env: Env) -> StepResult:
    """Replay a recorded turn."""
    if (move := played_move(trajectory, number)) is not None:
        return env.step(move)
    return env.interrupt(trajectory.reason or Reason.GAVE_UP)
