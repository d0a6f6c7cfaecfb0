"""Rejection sampling: the model attempts training tasks, and learns from the attempts that solved them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentgym.rollout import EnvFactory, Job
from agentgym.trainers.warm_start.examples import examples
from agentgym.trainers.warm_start.fine_tuning import Course, Steps, fine_tune
from agentgym.trainers.warm_start.playing import MakePolicy, attempts, training_jobs
from agentgym.trainers.warm_start.settings import Own, Progress, WarmStart
from agentgym.trajectory import Tokens, Trajectory

_log = logging.getLogger(__name__)


def learn_own(
    model: Any, tokenizer: Any, settings: WarmStart, own: Own, course: Course, progress: Progress, make: MakePolicy
) -> None:
    """Train the model on its own successes, in rounds; a round without successes is skipped."""
    for number in range(own.rounds):
        solved = successes(model, tokenizer, settings, own, number, make)
        progress("own successes", len(solved), own.tasks * own.samples)
        if not solved:
            _log.warning("warm start: the model solved none of %d tasks, so it learned nothing from them", own.tasks)
            continue
        steps = max(1, len(solved) // course.batch)
        fine_tune(
            model,
            tokenizer,
            examples(solved, settings.context),
            # The final learning rate of the demonstrations.
            replace(course, steps=steps, learning_rate=0.3 * course.learning_rate, checkpoints=None),
            [Steps(progress, f"own successes, round {number + 1}")],
        )


def successes(model: Any, tokenizer: Any, settings: WarmStart, own: Own, number: int, make: MakePolicy) -> list[Tokens]:
    """Return the distinct successful conversations of a round, as sampled."""
    factory = EnvFactory(settings.env, settings.env_kwargs)
    tested = settings.goal.tasks if settings.goal else 0
    fresh = training_jobs(factory, own.tasks, settings.seed, skip=settings.tasks + tested + number * own.tasks)
    jobs = [job for first in fresh for job in _repeated(first, own.samples)]
    played = attempts(model, tokenizer, make, jobs, factory, own.max_new_tokens)
    return [tokens for t in played if t.success and (tokens := t.tokens) is not None and _is_first(t, played)]


def _repeated(job: Job, samples: int) -> Iterator[Job]:
    for attempt in range(samples):
        yield replace(job, attempt=attempt)


def _is_first(trajectory: Trajectory, played: list[Trajectory]) -> bool:
    """Whether no earlier attempt at the task has the same actions."""
    actions = [turn.action for turn in trajectory.model_turns]
    same = (
        other
        for other in played
        if other.task_id == trajectory.task_id and [turn.action for turn in other.model_turns] == actions
    )
    return next(same) is trajectory
