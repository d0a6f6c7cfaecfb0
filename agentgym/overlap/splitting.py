"""Divides tasks into `train` and `test` without equal or nearly equal problems across the splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentgym.errors import UsageError
from agentgym.overlap.duplicates import NEAR, LocatedTask, find_pairs
from agentgym.task import TEST, TRAIN, Task, split_of


def split_tasks(tasks: Sequence[Task], test: float, near: float = NEAR) -> dict[str, list[Task]]:
    """Return the tasks of `train` and of `test`, in their original order, with their new split.

    Tasks that are nearly the same, directly or through others, stay together. The content of such a cluster determines
    its split, so that the order and ids of the tasks and the other clusters do not matter.

    Args:
        tasks: The tasks.
        test: Expected share of `test`, above 0 and below 1.
        near: Least similarity of problems that are nearly the same (`duplicates.find_pairs`).

    Raises:
        UsageError: `test` is out of range, or one of the splits would be empty.
    """
    if not 0 < test < 1:
        raise UsageError(f"the share of test must be above 0 and below 1, not {test}")
    clusters = _clusters(tasks, near)
    contents: dict[int, str] = {}
    for index, cluster in enumerate(clusters):
        contents[cluster] = min(contents.get(cluster, tasks[index].hash), tasks[index].hash)
    divided: dict[str, list[Task]] = {TRAIN: [], TEST: []}
    for task, cluster in zip(tasks, clusters, strict=True):
        split = split_of(contents[cluster], {TRAIN: 1 - test, TEST: test})
        divided[split].append(replace(task, split=split))
    if empty := [split for split, members in divided.items() if not members]:
        count = len(set(clusters))
        raise UsageError(
            f"{len(tasks)} tasks form {count} cluster(s) of similar ones, all in one split, so {empty[0]!r} would be "
            "empty: add tasks, or choose another share or similarity"
        )
    return divided


def _clusters(tasks: Sequence[Task], near: float) -> list[int]:
    """Return for each task the index of the first one of its cluster."""
    first = list(range(len(tasks)))

    def root(index: int) -> int:
        while first[index] != index:
            first[index] = first[first[index]]
            index = first[index]
        return index

    for pair in find_pairs([LocatedTask(task, str(index)) for index, task in enumerate(tasks)], near):
        low, high = sorted((root(int(pair.one.place)), root(int(pair.other.place))))
        first[high] = low
    return [root(index) for index in range(len(tasks))]
