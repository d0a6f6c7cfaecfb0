"""Divides tasks into `train` and `test` so that no problem is in both, nor one nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentgym.errors import UsageError
from agentgym.overlap.duplicates import NEAR, Placed, find_pairs
from agentgym.task import TEST, TRAIN, Task, split_of


def split_tasks(tasks: Sequence[Task], test: float, near: float = NEAR) -> dict[str, list[Task]]:
    """Return the tasks of `train` and of `test`, each in the given order, with their new split.

    Tasks that are the same or nearly the same, directly or through others, stay together. The content of such a cluster
    decides its split, so neither the order nor the ids of the tasks matter, and other clusters do not move it.

    Args:
        tasks: The tasks.
        test: Share of `test`, above 0 and below 1; reached on average.
        near: Similarity from which two problems are nearly the same (`duplicates.find_pairs`).

    Raises:
        UsageError: `test` is no such share, or one of the two splits would be empty.
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
    if empty := [split for split, some in divided.items() if not some]:
        count = len(set(clusters))
        raise UsageError(
            f"{len(tasks)} tasks form {count} cluster(s) of similar ones, all in one split; none is left for "
            f"{empty[0]!r}: give more tasks, or another share or similarity"
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

    for pair in find_pairs([Placed(task, str(index)) for index, task in enumerate(tasks)], near):
        low, high = sorted((root(int(pair.one.place)), root(int(pair.other.place))))
        first[high] = low
    return [root(index) for index in range(len(tasks))]
