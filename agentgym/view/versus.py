"""Compares two sides of a collection, task by task, like `agentgym compare`, with the trajectories of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import permutations
from typing import Any

from agentgym.comparison import Attempt, Run, attempt_of, compare
from agentgym.errors import UsageError
from agentgym.results.entry import Entry
from agentgym.view.collection import Collection
from agentgym.view.rows import Row

MAX_SIDES = 4
"""Number of sides that a report compares: the first ones."""

Side = tuple[str, str]
"""A file and a policy."""


def sides(rows: Iterable[Row]) -> list[Side]:
    """Return the sides that can be compared: the policies of files that share a task with another side, in order."""
    tasks: dict[Side, set[tuple[str, str]]] = {}
    for row in rows:
        tasks.setdefault((row["file"], row["policy"]), set()).add((row["env"], row["task"]))
    played = Counter(task for names in tasks.values() for task in names)
    return [side for side, names in tasks.items() if any(played[task] > 1 for task in names)]


def versus(collection: Collection, a: int, b: int) -> dict[str, Any]:
    """Return how one side differs from another as JSON data, with the keys of the attempts at tasks won and lost.

    Args:
        collection: All trajectories.
        a: Number of the baseline (`sides`).
        b: Number of the side to compare with it.

    Raises:
        UsageError: A number is invalid, or the sides have no unchanged task in common.
    """
    all_sides = sides(collection.rows)
    if a == b or not (0 <= a < len(all_sides) and 0 <= b < len(all_sides)):
        raise UsageError(f"choose two different sides from 0 to {len(all_sides) - 1}")
    parts = [[row for row in collection.rows if (row["file"], row["policy"]) == all_sides[side]] for side in (a, b)]
    entries = [[collection.entry(row["key"]) for row in part] for part in parts]
    comparison = asdict(compare(*(_run(*all_sides[side], part) for side, part in zip((a, b), entries, strict=True))))
    keys = [_keys(part) for part in parts]
    comparison["tasks"] = [task for task in comparison["tasks"] if task["verdict"] != "tied"]
    for task in comparison["tasks"]:
        place = task["env_id"], task["task_id"]
        task["attempts"] = [attempts[place] for attempts in keys]
    note = "The arguments of the environment differ between the two." if _differ(*entries) else ""
    return {**comparison, "note": note}


def all_versus(collection: Collection) -> dict[str, Any]:
    """Return the comparisons of all pairs of sides, both ways, by `a-b`: the data, or why they cannot be compared."""
    comparisons: dict[str, Any] = {}
    for a, b in permutations(range(min(MAX_SIDES, len(sides(collection.rows)))), 2):
        try:
            comparisons[f"{a}-{b}"] = versus(collection, a, b)
        except UsageError as error:
            comparisons[f"{a}-{b}"] = str(error)
    return comparisons


def _run(file: str, policy: str, entries: Sequence[Entry]) -> Run:
    tasks: dict[tuple[str, str], list[Attempt]] = {}
    for entry in entries:
        tasks.setdefault((entry.env_id, entry.task_id), []).append(attempt_of(entry.env_id, entry))
    return Run(file, policy, {entry.env_id: {} for entry in entries}, tasks)


def _keys(rows: Iterable[Row]) -> dict[tuple[str, str], list[list[Any]]]:
    """Return key and success of the attempts at each task that did not fail."""
    keys: dict[tuple[str, str], list[list[Any]]] = {}
    for row in rows:
        if not row["failed"]:
            keys.setdefault((row["env"], row["task"]), []).append([row["key"], row["success"]])
    return keys


def _differ(a: Sequence[Entry], b: Sequence[Entry]) -> bool:
    mine, theirs = ({entry.env_id: entry.arguments for entry in part} for part in (a, b))
    return any(mine[env] != theirs[env] for env in mine.keys() & theirs.keys())
