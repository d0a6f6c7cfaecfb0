"""The contents of one trajectory as JSON data for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentgym.trajectory import Trajectory
from agentgym.view.collection import Collection
from agentgym.view.pay import Schemes, as_trained, pays_of
from agentgym.view.rows import Row

MAX_GROUP = 64
"""Largest group whose advantages are computed: all its attempts are read for that."""
_LOGPROBS = "trainer_logprobs"
_DIGITS = 4


class Contents:
    """Makes the contents of trajectories.

    Args:
        collection: The collection of trajectories.
        schemes: The reward schemes of environments.
    """

    def __init__(self, collection: Collection, schemes: Schemes):
        self._collection = collection
        self._schemes = schemes

    def of(self, key: str) -> dict[str, Any]:
        """Return a trajectory, its pay and its annotations, without tokens."""
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
        pays = pays_of(list(read.values()), self._schemes, compared=len(rows) <= MAX_GROUP)
        paid = zip(read.items(), pays, strict=True)
        return {
            key: (trajectory, self._content(key, trajectory, pay))
            for (key, trajectory), pay in paid
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


def _numbers(data: Any, count: int) -> list[float] | None:
    """Return the list in an annotation, under any name, that has one number per completion token."""
    for values in data.values() if isinstance(data, dict) else ():
        if isinstance(values, list) and len(values) == count and all(type(item) in (int, float) for item in values):
            return [round(value, _DIGITS) for value in values]
    return None
