"""The contents of one trajectory as JSON data for the page."""

from __future__ import annotations

from typing import Any

from agentgym.trajectory import Trajectory
from agentgym.view.collection import Collection
from agentgym.view.pay import Schemes, pay_of
from agentgym.view.rows import Row

MAX_GROUP = 64
"""Attempts that are read to compute advantages; of a larger group, none are."""
_LOGPROBS = "trainer_logprobs"
_DIGITS = 4


class Contents:
    """Makes the contents of trajectories.

    Args:
        collection: Where they are.
        schemes: The schemes of environments.
    """

    def __init__(self, collection: Collection, schemes: Schemes):
        self._collection = collection
        self._schemes = schemes

    def of(self, key: str) -> dict[str, Any]:
        """Return a trajectory with its group, what it was paid, and what was annotated. Tokens are apart."""
        row = self._collection.row(key)
        [content] = [one for one in self.of_group(self._collection.group(row), only=key).values()]
        return {**content, "row": row, "group": self._collection.group(row)}

    def of_group(self, rows: list[Row], only: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the contents of all attempts at one task by key, or those of one of them."""
        wanted = rows if len(rows) <= MAX_GROUP or only is None else [row for row in rows if row["key"] == only]
        read = {row["key"]: self._collection.read(row["key"]) for row in wanted}
        group = list(read.values()) if len(rows) <= MAX_GROUP else []
        return {key: self._one(key, found, group) for key, found in read.items() if only in (None, key)}

    def tokens(self, key: str) -> dict[str, Any] | None:
        """Return the tokens of a trajectory, and the trainer's log-probabilities if they were annotated."""
        tokens = self._collection.read(key).tokens
        if tokens is None:
            return None
        data = vars(tokens) | {"logprobs": [round(value, _DIGITS) for value in tokens.logprobs]}
        values = self._collection.notes(key).get(_LOGPROBS)
        return data | {_LOGPROBS: _numbers(values, len(tokens.completion_ids))}

    def _one(self, key: str, trajectory: Trajectory, group: list[Trajectory]) -> dict[str, Any]:
        notes = self._collection.notes(key)
        members = group or [trajectory]
        return {
            "trajectory": trajectory.to_dict() | {"tokens": None},
            "has_tokens": trajectory.tokens is not None,
            "notes": {kind: data for kind, data in notes.items() if kind != _LOGPROBS},
            "pay": pay_of(trajectory, members, self._schemes, notes.get("credit")),
        }


def _numbers(data: Any, count: int) -> list[float] | None:
    """Return one number per completion token, if that is what the annotation holds."""
    values = data.get("values", data.get("logprobs")) if isinstance(data, dict) else data
    fits = isinstance(values, list) and len(values) == count and all(type(one) in (int, float) for one in values)
    return [round(value, _DIGITS) for value in values] if fits and values is not None else None
