"""Select which tasks of a source to inspect, and which of those to play. Depends on no check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym.task import Task, TaskSource

PER_LEVEL = 2
"""Tasks played per split and difficulty."""

FEWEST = 4
"""Minimum number of tasks played, if the source has that many."""

_SCANNED = 200
"""Maximum number of tasks inspected per split."""

_SCAN_SECONDS = 2.0
"""Seconds after which no more tasks of a split are inspected, however few have been."""


def first_tasks(source: TaskSource) -> dict[str, list[Task]]:
    """Return the first tasks of every split."""
    return {split: _first_tasks(source, split) for split in source.splits}


def sample(scanned: Mapping[str, Sequence[Task]], per_level: int = PER_LEVEL, fewest: int = FEWEST) -> list[Task]:
    """Return the first `per_level` tasks of every split and difficulty, and others to reach `fewest` in total."""
    selected: list[Task] = []
    others: list[Task] = []
    for tasks in scanned.values():
        counts: Counter[int] = Counter()
        for task in tasks:
            counts[task.difficulty] += 1
            (selected if counts[task.difficulty] <= per_level else others).append(task)
    return [*selected, *others[: max(0, fewest - len(selected))]]


def _first_tasks(source: TaskSource, split: str) -> list[Task]:
    size = source.size(split)
    until = time.monotonic() + _SCAN_SECONDS
    tasks: list[Task] = []
    for index in range(_SCANNED if size is None else min(size, _SCANNED)):
        tasks.append(source.get(split, index))
        if time.monotonic() > until:
            break
    return tasks
