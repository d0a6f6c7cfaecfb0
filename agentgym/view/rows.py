"""Rows: the short facts of trajectories, as listed by the page and the terminal.

The page filters, sorts and summarises rows itself (`data/query.js`); the terminal filters and sorts them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentgym.errors import UsageError
from agentgym.results.entry import Entry

Row = dict[str, Any]
"""A row as JSON data. Its `key` identifies the trajectory in URLs; attempts at one task share the number `group`."""

_FILTERS: dict[str, Callable[[Row], Iterable[Any]]] = {
    "env": lambda row: [row["env"]],
    "policy": lambda row: [row["policy"]],
    "split": lambda row: [row["split"]],
    "difficulty": lambda row: [row["difficulty"]],
    "tag": lambda row: row["tags"],
    "ending": lambda row: [row["reason"]],
    "solved": lambda row: ["yes" if row["success"] else "failed" if row["failed"] else "no"],
    "step": lambda row: [] if row["step"] is None else [row["step"]],
    "file": lambda row: [row["file"]],
}
FILTERS = tuple(_FILTERS)
"""Filters of `matching`."""
_SORTABLE = (
    *("id", "env", "policy", "step", "difficulty", "success", "reason", "reward"),
    *("turns", "calls", "tool_errors", "sampled", "seconds", "generation", "environment"),
)
"""Columns that `ordered` can sort by."""


def row_of(entry: Entry, key: str, file: str, group: int) -> Row:
    """Return the row of an entry.

    Args:
        entry: The entry.
        key: Identifies the trajectory in URLs.
        file: Displayed name of the file.
        group: Number of the group of attempts at its task.
    """
    return {
        "key": key,
        "file": file,
        "id": entry.id,
        "env": entry.env_id,
        "policy": entry.policy,
        "task": entry.task_id,
        "attempt": entry.attempt,
        "group": group,
        "step": entry.step,
        "split": entry.split,
        "difficulty": entry.difficulty,
        "tags": list(entry.tags),
        "reason": entry.reason,
        "ending": entry.ending,
        "success": entry.success,
        "failed": entry.failed,
        "reward": entry.reward,
        "turns": entry.turns,
        "sampled": entry.sampled_tokens,
        "calls": entry.counts.get("calls", 0),
        "tool_errors": entry.counts.get("tool_errors", 0),
        "format_errors": entry.counts.get("format_errors", 0),
        "seconds": entry.seconds,
        "generation": entry.generation_s,
        "environment": entry.environment_s,
        "channels": entry.channels,
    }


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows by column, so that the names do not repeat in every row."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def matching(rows: Iterable[Row], filters: Mapping[str, str], keys: frozenset[str] | None = None) -> list[Row]:
    """Return the rows that match all filters.

    Args:
        rows: The rows.
        filters: Values by name (`FILTERS`), as text; empty and unknown ones are ignored.
        keys: Keys that match a full-text search, if any.
    """
    tests = [(_FILTERS[name], value) for name, value in filters.items() if value and name in FILTERS]
    return [
        row
        for row in rows
        if all(value in map(_text, values(row)) for values, value in tests) and (keys is None or row["key"] in keys)
    ]


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def ordered(rows: Sequence[Row], sort: str) -> Sequence[Row]:
    """Return rows sorted by a column, or descending by `-column`; rows without a value come last.

    Raises:
        UsageError: The column is unknown.
    """
    name = sort.removeprefix("-")
    if not name:
        return rows
    if name not in _SORTABLE:
        raise UsageError(f"rows cannot be sorted by {name!r}; choose from: {', '.join(_SORTABLE)}")
    valued = [row for row in rows if row[name] is not None]
    valued.sort(key=lambda row: row[name], reverse=sort.startswith("-"))
    return [*valued, *(row for row in rows if row[name] is None)]
