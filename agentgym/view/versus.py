"""Two sides of a collection compared, task by task: what `agentgym compare` says, and the trajectories behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import permutations
from typing import Any

from agentgym.comparison import Attempt, Run, compare
from agentgym.errors import UsageError
from agentgym.view.rows import Row

MAX_SIDES = 4
"""Of more sides, a report holds the comparisons of the first ones only."""
_MEASURES = {
    "reward": "reward",
    "turns": "turns",
    "tool calls": "calls",
    "tool errors": "tool_errors",
    "format errors": "format_errors",
    "sampled tokens": "sampled",
    "seconds": "seconds",
    "seconds of generation": "generation",
    "seconds of environment": "environment",
}
"""Names of measures, and the columns that hold them."""

Side = tuple[str, str]
"""A file and a policy."""


def sides(rows: Iterable[Row]) -> list[Side]:
    """Return what can be compared: each policy of each file, in order, if another one has played a task of its too."""
    tasks: dict[Side, set[tuple[str, str]]] = {}
    for row in rows:
        tasks.setdefault((row["file"], row["policy"]), set()).add((row["env"], row["task"]))
    played = Counter(task for some in tasks.values() for task in some)
    return [side for side, some in tasks.items() if any(played[task] > 1 for task in some)]


def versus(rows: Sequence[Row], a: int, b: int) -> dict[str, Any]:
    """Return how one side differs from another as JSON data, with the keys of the attempts at tasks won and lost.

    Args:
        rows: All rows.
        a: Number of the side to compare with (`sides`).
        b: Number of the side that is compared.

    Raises:
        UsageError: There are no such sides, or they have no unchanged task in common.
    """
    known = sides(rows)
    if a == b or not (0 <= a < len(known) and 0 <= b < len(known)):
        raise UsageError(f"choose two different sides from 0 to {len(known) - 1}")
    parts = [[row for row in rows if (row["file"], row["policy"]) == known[side]] for side in (a, b)]
    runs = [_run(*known[side], part) for side, part in zip((a, b), parts, strict=True)]
    found = asdict(compare(*runs))
    keys = [_keys(part) for part in parts]
    found["tasks"] = [task for task in found["tasks"] if task["verdict"] != "tied"]
    for task in found["tasks"]:
        place = task["env_id"], task["task_id"]
        task["attempts"] = [one[place] for one in keys]
    note = "The arguments of the environment differ between the two." if _differ(*parts) else ""
    return {**found, "note": note}


def all_versus(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the comparisons of all pairs of sides by `a-b` both ways: data, or the reason for none."""
    found: dict[str, Any] = {}
    for a, b in permutations(range(min(MAX_SIDES, len(sides(rows)))), 2):
        try:
            found[f"{a}-{b}"] = versus(rows, a, b)
        except UsageError as error:
            found[f"{a}-{b}"] = str(error)
    return found


def _run(file: str, policy: str, rows: Sequence[Row]) -> Run:
    tasks: dict[tuple[str, str], list[Attempt]] = {}
    for row in rows:
        tasks.setdefault((row["env"], row["task"]), []).append(_attempt(row))
    return Run(file, policy, {row["env"]: {} for row in rows}, tasks)


def _attempt(row: Row) -> Attempt:
    measures = {name: float(row[column]) for name, column in _MEASURES.items() if row[column] is not None}
    return Attempt(
        key=(row["env"], row["task"]),
        task_hash=row["hash"],
        difficulty=row["difficulty"],
        tags=tuple(row["tags"]),
        failed=row["failed"],
        success=row["success"],
        is_searched=False,  # the page compares lines of play; what a search took stands beside each of them
        measures=measures,
    )


def _keys(rows: Iterable[Row]) -> dict[tuple[str, str], list[list[Any]]]:
    """Return key and success of the attempts at each task that did not fail."""
    found: dict[tuple[str, str], list[list[Any]]] = {}
    for row in rows:
        if not row["failed"]:
            found.setdefault((row["env"], row["task"]), []).append([row["key"], row["success"]])
    return found


def _differ(a: Sequence[Row], b: Sequence[Row]) -> bool:
    mine, theirs = ({row["env"]: row["arguments"] for row in part} for part in (a, b))
    return any(mine[env] != theirs[env] for env in mine.keys() & theirs.keys())
