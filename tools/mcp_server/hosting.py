"""`Hosting`: the configuration of an MCP server, the episodes that it plays (`Choice`), and the file that it writes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core import registry
from agentgym.core.env import Env
from agentgym.core.trajectory import Trajectory, write_jsonl

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


@dataclass
class Hosting:
    """The configuration of a server, and the state that its sessions share.

    Args:
        env_id: The environment.
        settings: Its arguments.
        choice: Which episodes it plays. Session number *n*, from 0, adds *n* to the seed, and to the index if set.
        out: The file to which finished episodes are appended.
        sessions: Maximum number of open sessions.
        request_s: Time limit for beginning an episode and for a tool call; an episode that exceeds it fails.
        idle_s: Seconds without a request after which a session is closed.
    """

    env_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)
    out: Path | None = None
    sessions: int = 64
    request_s: float = 300.0
    idle_s: float = 600.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._writing = threading.Lock()
        self.is_stopping = False
        """Whether the server is shutting down, which cuts its episodes off."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the environment. Clients get the tools' schemas, so no dialect describes the tools."""
        return {**self.settings, "dialect": "native"}

    def make(self) -> Env:
        """Return a new environment."""
        return registry.make(self.env_id, **self.arguments)

    def next_number(self) -> int:
        """Return the number of a new session, from 0."""
        return next(self._numbers)

    def keep(self, trajectory: Trajectory) -> None:
        """Append a finished episode to the file, if there is one."""
        if self.out is not None:
            with self._writing:
                write_jsonl(self.out, [trajectory], append=True)
