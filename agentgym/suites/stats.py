"""Counts and prompt lengths of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from agentgym.overlap.words import words_of
from agentgym.task import Task


@dataclass(frozen=True)
class Lengths:
    """Lengths of the prompts."""

    shortest: int
    median: float
    mean: float
    longest: int


@dataclass(frozen=True)
class TaskStats:
    """Statistics of a set of tasks."""

    tasks: int
    by_split: Mapping[str, int]
    by_difficulty: Mapping[int, int]
    by_tag: Mapping[str, int]
    """Most frequent first; a task may have several tags."""
    characters: Lengths
    words: Lengths


def task_stats(tasks: Sequence[Task]) -> TaskStats:
    """Return statistics of a set of at least one task."""
    return TaskStats(
        tasks=len(tasks),
        by_split=dict(Counter(task.split for task in tasks)),
        by_difficulty=dict(sorted(Counter(task.difficulty for task in tasks).items())),
        by_tag=dict(Counter(tag for task in tasks for tag in task.tags).most_common()),
        characters=_lengths(len(task.prompt) for task in tasks),
        words=_lengths(len(words_of(task.prompt)) for task in tasks),
    )


def _lengths(numbers: Iterable[int]) -> Lengths:
    ordered = sorted(numbers)
    return Lengths(ordered[0], median(ordered), fmean(ordered), ordered[-1])
