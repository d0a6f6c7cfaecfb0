"""Replays a recorded trajectory and reports the first difference: a test that an environment is deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import reset_options
from agentgym.core.env import Env
from agentgym.core.making import recorded_arguments, refuse_class
from agentgym.core.registry import class_of, make
from agentgym.core.task import Task, may_be_same
from agentgym.core.trajectory import Trajectory


@dataclass(frozen=True)
class Difference:
    """The first difference between a recording and its replay."""

    turn: int
    """Number of the turn, from 1; 0 is the opening."""
    what: str
    """`task`, `opening`, `observation`, `rewards`, `reward` or `ending`."""
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"turn {self.turn}: {self.what} was {self.recorded!r}, is now {self.replayed!r}"


def replay(
    trajectory: Trajectory, env: Env | None = None, task: Task | None = None, *, trust: bool = False
) -> Difference | None:
    """Replay the recorded actions and return the first difference, or `None` if the episodes are equal.

    Args:
        trajectory: The recording. Failed and interrupted episodes are compared up to that point.
        env: The environment to replay it in; by default created from the trajectory's id and arguments, and closed at
            the end.
        task: The task; by default looked up in the environment's own tasks.
        trust: Allow the trajectory to choose any class and any argument for that environment.

    Raises:
        UsageError: Without `trust`: the trajectory names a class or sets an argument that is not harmless.
    """
    if env is not None:
        return _compare(trajectory, env, task)
    if not trust:
        source = f"trajectory {trajectory.id!r}"
        refuse_class(trajectory.env_id, source)
        recorded_arguments(class_of(trajectory.env_id), trajectory.env_kwargs, {}, source)
    own_env = make(trajectory.env_id, **trajectory.env_kwargs)
    try:
        return _compare(trajectory, own_env, task)
    finally:
        own_env.close()


def _compare(trajectory: Trajectory, env: Env, task: Task | None) -> Difference | None:
    options = reset_options(task or trajectory.task_id, trajectory.training_step)
    opening, _ = env.reset(seed=trajectory.seed, options=options)
    if not may_be_same(env.task.hash, trajectory.task_hash):
        return Difference(0, "task", trajectory.task_hash, env.task.hash)
    if opening != trajectory.opening:
        return Difference(0, "opening", trajectory.opening, opening)
    for number, turn in enumerate(trajectory.turns, start=1):
        if env.reason is not None:
            return Difference(number - 1, "ending", None, env.reason)
        if (move := played_move(trajectory, number)) is not None:
            result = env.step(move)
        elif trajectory.reason is not None:
            result = env.interrupt(trajectory.reason)
        else:
            break
        for what, recorded, replayed in (
            ("observation", turn.answered, result.observation),
            ("rewards", turn.rewards, result.info["rewards"]),
            ("reward", turn.reward, result.reward),
        ):
            if recorded != replayed:
                return Difference(number, what, recorded, replayed)
    if trajectory.reason is not None and not trajectory.error and env.reason != trajectory.reason:
        return Difference(len(trajectory.turns), "ending", trajectory.reason, env.reason)
    return None


def played_move(trajectory: Trajectory, number: int) -> Action | None:
    """Return the action that the environment received in a turn; `None` if the episode was interrupted before."""
    turn = trajectory.turns[number - 1]
    is_last = number == len(trajectory.turns)
    # Older recordings have no `finish`.
    late = turn.finish == "time" or (turn.finish is None and trajectory.reason is Reason.GENERATION_TIME and is_last)
    return None if late else turn.move
