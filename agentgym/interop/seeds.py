"""Tasks for environments that have seeds instead: each task is one seed, and no seed is in two splits."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from functools import partial

from agentgym.env import Env
from agentgym.errors import InfrastructureError
from agentgym.foreign.errors import describe
from agentgym.interop.caveats import Caveat
from agentgym.task import TEST, TRAIN, VALIDATION, GeneratedTasks, Task

FIRST_SEED = {TRAIN: 0, VALIDATION: 2**30, TEST: 2**31}
"""The first seed of each split. All are far apart, and far below 2**32, where NumPy's seeds end."""
_TURNS = 8
"""Turns that are tried to find out whether chance follows from the seed."""
_TRIED = 4
"""Seeds that are tried to find out what they decide."""


def seed_tasks(name: str, prompt: str) -> GeneratedTasks:
    """Return an endless source of tasks that differ in `data["seed"]` alone.

    Args:
        name: Prefix of the task ids.
        prompt: The prompt of all tasks.
    """
    return GeneratedTasks(name, partial(_task, name, prompt), dict.fromkeys(FIRST_SEED))


def _task(name: str, prompt: str, split: str, index: int) -> Task:
    return Task(f"{name}/{split}/{index}", split, prompt, data={"seed": FIRST_SEED[split] + index})


def seed_caveats(opening: Callable[[int], str], *, ignored: str, alike: str) -> list[Caveat]:
    """Begin episodes of a few seeds, twice each, and return what is unsound about them.

    Args:
        opening: Returns how the episode of a seed begins.
        ignored: What to say if a seed begins in two ways.
        alike: What to say if all seeds begin in one way.
    """
    seeds = range(FIRST_SEED[TRAIN], FIRST_SEED[TRAIN] + _TRIED)
    openings = list(map(opening, seeds))
    if list(map(opening, seeds)) != openings:
        return [Caveat("seed-honoured", ignored)]
    return [Caveat(None, alike)] if len({*openings}) == 1 else []


def chance_caveats(env: Env) -> list[Caveat]:
    """Play the same random calls twice in fresh copies of an environment, and say so if they are answered otherwise.

    Args:
        env: An environment with `seed_tasks`.
    """
    if any(_played(env, index) != _played(env, index) for index in range(_TRIED)):
        return [Caveat("deterministic", "what happens after the beginning does not follow from the seed")]
    return []


def _played(env: Env, index: int) -> list[object]:
    """Return what is shown and paid in the first turns of an episode with random calls."""
    with closing(copy.copy(env)) as fresh:
        shown: list[object] = []
        try:
            shown.append(fresh.reset(seed=0, options={"split": TRAIN, "index": index})[0])
            fresh.action_space.seed(index)
            for _ in range(_TURNS):
                result = fresh.step(fresh.action_space.sample())
                shown.append((result.observation, result.reward))
                if result.terminated or result.truncated:
                    break
        except InfrastructureError as error:
            shown.append(describe(error))
        return shown
