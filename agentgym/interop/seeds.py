"""Tasks for environments that have seeds instead: each task is one seed, and no seed is in two splits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentgym.interop.caveats import Caveat
from agentgym.task import TEST, TRAIN, VALIDATION, GeneratedTasks, Task

FIRST_SEED = {TRAIN: 0, VALIDATION: 2**30, TEST: 2**31}
"""The first seed of each split. All are far apart, and far below 2**32, where NumPy's seeds end."""
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
