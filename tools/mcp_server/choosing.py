"""`Choice`: which episodes are played, as set by the server's options and a client's URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.base.errors import UsageError

_NUMBERS = ("index", "seed")
_TEXTS = ("task", "split", "name")
_MOST_DIGITS = 40


@dataclass(frozen=True)
class Choice:
    """How an episode begins.

    Args:
        task: The id of its task.
        split: The split of its task, if no task is named.
        index: The index of its task in the split; by default the seed selects the task.
        seed: The episode's seed.
        name: The id of its trajectory; by default the server chooses.
    """

    task: str | None = None
    split: str | None = None
    index: int | None = None
    seed: int = 0
    name: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Env.reset`."""
        if self.task is not None:
            return {"task": self.task}
        options = {"split": self.split, "index": self.index}
        return {name: value for name, value in options.items() if value is not None}

    def for_session(self, number: int) -> Choice:
        """Return the choice of a session by its number from 0: index and seed grow by that number."""
        index = None if self.index is None else self.index + number
        return replace(self, index=index, seed=self.seed + number)

    def with_query(self, query: Mapping[str, str]) -> Choice:
        """Return the choice as changed by the query of a client's URL. Raises `UsageError` for unknown parameters."""
        if unknown := sorted(set(query) - {*_NUMBERS, *_TEXTS}):
            raise UsageError(f"the URL has unknown parameter {unknown[0]!r}; known: {', '.join((*_TEXTS, *_NUMBERS))}")
        return replace(self, **{name: _read(name, value) for name, value in query.items()})


def _read(name: str, value: str) -> int | str:
    if name not in _NUMBERS:
        return value
    if not (value.isascii() and value.isdigit()) or len(value) > _MOST_DIGITS:
        raise UsageError(f"{name}={value[:_MOST_DIGITS]!r} in the URL must be a whole number from 0")
    return int(value)
