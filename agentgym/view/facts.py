"""The head of a page: facts about the whole collection, and the rows. Servers and reports both use it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import permutations
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory
from agentgym.eval.comparison import Attempt, Run, attempt_of, compare
from agentgym.eval.results.entry import Entry
from agentgym.view.collection import Collection, Row, columns_of
from agentgym.view.environments import Environments, Unknown
from agentgym.view.pay import as_trained, pays_of

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


MAX_GROUP = 64
"""Largest group whose advantages are computed: all its attempts are read for that."""
_LOGPROBS = "trainer_logprobs"
_DIGITS = 4
_MAX_GOLD = 2_000
"""Number of characters of each entry of a gold that are shown."""


class Contents:
    """Makes the contents of trajectories.

    Args:
        collection: The collection of trajectories.
        environments: The environments of the recordings.
    """

    def __init__(self, collection: Collection, environments: Environments):
        self._collection = collection
        self._environments = environments

    def of(self, key: str) -> dict[str, Any]:
        """Return a trajectory, its task's prompt and gold, its pay and its annotations, without tokens."""
        group = self._collection.group(self._collection.row(key))
        return self._read(group, only=key)[key][1]

    def of_group(self, rows: list[Row]) -> dict[str, dict[str, Any]]:
        """Return the contents of all attempts at one task by key, including tokens."""
        contents = self._read(rows)
        return {key: {**data, "tokens": self._tokens(key, trajectory)} for key, (trajectory, data) in contents.items()}

    def tokens(self, key: str) -> dict[str, Any] | None:
        """Return the tokens of a trajectory, and the trainer's log-probabilities if annotated."""
        return self._tokens(key, self._collection.read(key))

    def _read(self, rows: list[Row], only: str | None = None) -> dict[str, tuple[Trajectory, dict[str, Any]]]:
        """Return the attempts at one task, or only one of them, by key: the trajectory and its contents."""
        read = {row["key"]: self._collection.read(row["key"]) for row in self._needed(rows, only)}
        first = next(iter(read.values()))
        scheme, task = self._environments.scheme_of(first), _task_data(self._environments.task_of(first))
        pays = pays_of(list(read.values()), scheme, compared=len(rows) <= MAX_GROUP)
        return {
            key: (trajectory, {**self._content(key, trajectory, pay), "task": task})
            for (key, trajectory), pay in zip(read.items(), pays, strict=True)
            if only in (None, key)
        }

    def _tokens(self, key: str, trajectory: Trajectory) -> dict[str, Any] | None:
        if (tokens := trajectory.tokens) is None:
            return None
        data = vars(tokens) | {"logprobs": [round(value, _DIGITS) for value in tokens.logprobs]}
        values = self._collection.notes(key).get(_LOGPROBS)
        return data | {_LOGPROBS: _numbers(values, len(tokens.completion_ids))}

    def _needed(self, rows: list[Row], only: str | None) -> list[Row]:
        """Return the attempts to read: of a large group, only the requested one."""
        return rows if only is None or len(rows) <= MAX_GROUP else [row for row in rows if row["key"] == only]

    def _content(self, key: str, trajectory: Trajectory, pay: dict[str, Any]) -> dict[str, Any]:
        notes = self._collection.notes(key)
        return {
            "trajectory": replace(trajectory, tokens=None).to_dict(),
            "has_tokens": trajectory.tokens is not None,
            "notes": {kind: data for kind, data in notes.items() if kind != _LOGPROBS},
            "pay": as_trained(pay, notes.get("credit"), len(trajectory.model_turns)),
        }


def _task_data(task: Task | Unknown) -> dict[str, Any]:
    """Return the prompt and the gold of a task as JSON data, long values shortened, or why they are unknown."""
    if isinstance(task, Unknown):
        return {"prompt": None, "gold": {}, "problem": task.reason}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in task.gold.items()
        if value not in (None, "", [], {})
    }
    gold = {
        name: text if len(text) <= _MAX_GOLD else f"{text[:_MAX_GOLD]}… ({len(text)} characters)"
        for name, text in texts.items()
    }
    return {"prompt": task.prompt, "gold": gold, "problem": ""}


def _numbers(data: Any, count: int) -> list[float] | None:
    """Return the list in an annotation, under any name, that has one number per completion token."""
    for values in data.values() if isinstance(data, dict) else ():
        if isinstance(values, list) and len(values) == count and all(type(item) in (int, float) for item in values):
            return [round(value, _DIGITS) for value in values]
    return None


def head_of(collection: Collection, since: str = "") -> dict[str, Any]:
    """Return the data that a page needs first, as JSON data.

    Args:
        collection: The trajectories to show.
        since: The version that the page already has; unchanged rows are left out.
    """
    version, start, rows = collection.since(since)
    return {
        "title": collection.title,
        "version": version,
        "metrics": collection.metrics,
        "runs": collection.runs,
        "sides": sides(collection.rows),
        "note": "",
        "start": start,
        "columns": columns_of(rows),
    }
