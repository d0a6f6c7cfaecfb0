"""The demonstrations of a warm start: solution trajectories of training tasks, or recorded trajectories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from agentgym.endings import Reason
from agentgym.errors import UsageError
from agentgym.policy import ScriptedPolicy
from agentgym.registry import class_of
from agentgym.rollout import EnvFactory, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.task import TRAIN
from agentgym.trainers.config import short_name
from agentgym.trainers.warm_start.playing import training_jobs
from agentgym.trainers.warm_start.settings import Progress, WarmStart
from agentgym.trajectory import Trajectory, read_jsonl

_log = logging.getLogger(__name__)


def demonstrations(settings: WarmStart, progress: Progress) -> list[Trajectory]:
    """Return the trajectories to imitate. Raises `UsageError` if none is usable."""
    if settings.recordings is not None:
        return recorded(settings)
    return solutions(settings.env, settings.env_kwargs, settings.tasks, settings.seed, progress)


def solutions(env: str, env_kwargs: dict[str, Any], tasks: int, seed: int, progress: Progress) -> list[Trajectory]:
    """Return solution trajectories of `tasks` training tasks, without broken tasks.

    Raises:
        UsageError: A solution does not solve its task. For tasks from files, some of which may exceed limits such as
            `max_turns`: no solution solves its task.
    """
    factory = EnvFactory(env, env_kwargs)
    jobs = training_jobs(factory, tasks, seed)
    trajectories: list[Trajectory] = []
    while batch := list(islice(jobs, 256)):
        trajectories += asyncio.run(play_jobs(batch, ScriptedPolicy(), factory, Limits(max_in_flight=16)))
        progress("solving tasks", len(trajectories), tasks)
    solved = [t for t in trajectories if t.success]
    unsolved = [t for t in trajectories if not t.success and t.reason is not Reason.BROKEN_TASK]
    if not unsolved and solved:
        return solved
    first = unsolved[0] if unsolved else trajectories[0]
    why = f" ({first.reason})" if first.error is None else f" ({first.error})"
    total = len(trajectories)
    problem = f"{env}: solution() does not solve {first.task_id!r}{why}, {total - len(solved)} of {total} tasks"
    if not solved or not _from_files(env, env_kwargs):
        raise UsageError(problem)
    _log.warning("%s; the warm start uses the other tasks", problem)
    return solved


def recorded(settings: WarmStart) -> list[Trajectory]:
    """Return the recorded trajectories of training tasks, by default only successful ones.

    Raises:
        UsageError: The file is unreadable, from another environment or in another dialect, or contains no usable
            trajectory.
    """
    assert settings.recordings is not None
    path = Path(settings.recordings)
    trajectories = list(read_jsonl(path))
    for number, trajectory in enumerate(trajectories, start=1):
        _check_fits(trajectory, settings, f"{path}, trajectory {number}")
    usable = [t for t in trajectories if t.split == TRAIN and not t.failed and (t.success or settings.unsolved)]
    if not usable:
        kind = "a trajectory" if settings.unsolved else "a success"
        raise UsageError(
            f"{path}: none of the {len(trajectories)} trajectories is {kind} on a task of the split {TRAIN!r}; record "
            f"some with `agentgym eval --tasks {TRAIN} --out FILE`"
        )
    return usable


def _check_fits(trajectory: Trajectory, settings: WarmStart, where: str) -> None:
    if short_name(trajectory.env_id) != short_name(settings.env):
        raise UsageError(
            f"{where} was recorded in {trajectory.env_id!r}, but the run trains in {settings.env!r}; a model learns "
            "from trajectories of its own environment"
        )
    run_dialect, dialect = settings.env_kwargs["dialect"], trajectory.env_kwargs.get("dialect")
    if dialect != run_dialect or any(not isinstance(turn.action, str) for turn in trajectory.model_turns):
        raise UsageError(
            f"{where} writes its calls in the dialect {dialect!r}, but the run's model writes them in {run_dialect!r}; "
            f"record it with --dialect {run_dialect}, or train with --dialect {dialect}"
        )


def _from_files(env: str, env_kwargs: Mapping[str, Any]) -> bool:
    files = class_of(env).files
    return files is not None and env_kwargs.get(files.argument) is not None
