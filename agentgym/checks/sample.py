"""Which tasks of a source are looked at, and which of those are played. Knows no check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym.task import Task, TaskSource

PER_LEVEL = 2
"""Tasks tried per split and difficulty."""

FEWEST = 4
"""Tasks tried at least, where there are so many."""

_SCANNED = 200
"""Tasks looked at per split."""

_SCAN_SECONDS = 2.0
"""Time after which a split has been looked at enough, however few tasks that were."""


def first_tasks(source: TaskSource) -> dict[str, list[Task]]:
    """Return the first tasks of every split."""
    return {split: _first_tasks(source, split) for split in source.splits}


def sample(scanned: Mapping[str, Sequence[Task]], per_level: int = PER_LEVEL, fewest: int = FEWEST) -> list[Task]:
    """Return the first `per_level` tasks of every split and difficulty, and others up to `fewest`."""
    chosen: list[Task] = []
    others: list[Task] = []
    for tasks in scanned.values():
        seen: Counter[int] = Counter()
        for task in tasks:
            seen[task.difficulty] += 1
            (chosen if seen[task.difficulty] <= per_level else others).append(task)
    return [*chosen, *others[: max(0, fewest - len(chosen))]]


def _first_tasks(source: TaskSource, split: str) -> list[Task]:
    size = source.size(split)
    until = time.monotonic() + _SCAN_SECONDS
    tasks: list[Task] = []
    for index in range(_SCANNED if size is None else min(size, _SCANNED)):
        tasks.append(source.get(split, index))
        if time.monotonic() > until:
            break
    return tasks
