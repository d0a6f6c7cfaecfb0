"""Which episodes are played: what the server was told, and what a client asks for in its URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.errors import UsageError

_NUMBERS = ("index", "seed")
_TEXTS = ("task", "split", "name")
_MOST_DIGITS = 40


@dataclass(frozen=True)
class Choice:
    """How an episode begins.

    Args:
        task: The id of its task.
        split: The split of its task, if no task is named.
        index: The number of its task in the split, from 0; by default the seed chooses.
        seed: The episode's seed.
        name: The id of its trajectory; by default the server's.
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
        wanted = {"split": self.split, "index": self.index}
        return {name: value for name, value in wanted.items() if value is not None}

    def later(self, number: int) -> Choice:
        """Return the choice of the session with this number, from 0: the next task, the next seed."""
        index = None if self.index is None else self.index + number
        return replace(self, index=index, seed=self.seed + number)

    def asked(self, query: Mapping[str, str]) -> Choice:
        """Return the choice of a client, from the query of its URL. Raises `UsageError` if there is no such word."""
        if unknown := sorted(set(query) - {*_NUMBERS, *_TEXTS}):
            raise UsageError(f"the URL asks for {unknown[0]!r}; it can ask for: {', '.join((*_TEXTS, *_NUMBERS))}")
        return replace(self, **{name: _read(name, value) for name, value in query.items()})


def _read(name: str, value: str) -> int | str:
    if name not in _NUMBERS:
        return value
    if not (value.isascii() and value.isdigit()) or len(value) > _MOST_DIGITS:
        raise UsageError(f"the URL says {name}={value[:_MOST_DIGITS]!r}; a whole number from 0 is needed")
    return int(value)
