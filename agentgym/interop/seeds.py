"""Tasks for environments that have only seeds: each task is one seed, and no seed is in two splits."""

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
"""The first seed of each split. They are far apart, and far below 2**32, the limit of NumPy's seeds."""
_TURNS = 8
"""Turns played to test whether randomness follows from the seed."""
_SEEDS = 4
"""Seeds used in each test."""


def seed_tasks(name: str, prompt: str) -> GeneratedTasks:
    """Return an endless source of tasks that differ only in `data["seed"]`.

    Args:
        name: Prefix of the task ids.
        prompt: The prompt of all tasks.
    """
    return GeneratedTasks(name, partial(_task, name, prompt), dict.fromkeys(FIRST_SEED))


def _task(name: str, prompt: str, split: str, index: int) -> Task:
    return Task(f"{name}/{split}/{index}", split, prompt, data={"seed": FIRST_SEED[split] + index})


def seed_caveats(opening: Callable[[int], str], *, ignored: str, alike: str) -> list[Caveat]:
    """Begin episodes of a few seeds, twice each, and return caveats about the openings.

    Args:
        opening: Returns the opening of a seed's episode.
        ignored: The caveat if a seed has different openings.
        alike: The caveat if all seeds have the same opening.
    """
    seeds = range(FIRST_SEED[TRAIN], FIRST_SEED[TRAIN] + _SEEDS)
    openings = list(map(opening, seeds))
    if list(map(opening, seeds)) != openings:
        return [Caveat("seed-honoured", ignored)]
    return [Caveat(None, alike)] if len({*openings}) == 1 else []


def chance_caveats(env: Env) -> list[Caveat]:
    """Play the same random calls twice in fresh copies of an environment, and return a caveat if the answers differ.

    Args:
        env: An environment with `seed_tasks`.
    """
    if any(_trace(env, index) != _trace(env, index) for index in range(_SEEDS)):
        return [Caveat("deterministic", "what happens after the beginning does not follow from the seed")]
    return []


def _trace(env: Env, index: int) -> list[object]:
    """Return the observations and rewards of the first turns of an episode with random calls."""
    with closing(copy.copy(env)) as fresh:
        trace: list[object] = []
        try:
            trace.append(fresh.reset(seed=0, options={"split": TRAIN, "index": index})[0])
            fresh.action_space.seed(index)
            for _ in range(_TURNS):
                result = fresh.step(fresh.action_space.sample())
                trace.append((result.observation, result.reward))
                if result.terminated or result.truncated:
                    break
        except InfrastructureError as error:
            trace.append(describe(error))
        return trace
