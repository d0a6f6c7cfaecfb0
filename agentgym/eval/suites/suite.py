"""`Suite` and its entries: pinned tasks and how they are played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from agentgym.base.errors import UsageError
from agentgym.base.fields import Rules, check_fields, is_count, is_text, required_fields
from agentgym.core.env import Env
from agentgym.core.making import closed_after, full_env_id, make_env
from agentgym.core.task import Task
from agentgym.eval.suites.file import EntryPart, LimitsPart, name_of
from agentgym.eval.suites.pins import Pins, pinned_tasks
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits


class Identified(Protocol):
    """A suite, or the identity of one in recorded results."""

    @property
    def name(self) -> str:
        """The suite's name."""
        ...

    @property
    def version(self) -> int:
        """The suite's version."""
        ...

    @property
    def content_hash(self) -> str:
        """Hash of the tasks and of how they are played (hex SHA-256)."""
        ...


@dataclass(frozen=True)
class SuiteId:
    """The identity of a suite, stored with results."""

    name: str
    version: int
    content_hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> SuiteId:
        """Rebuild it from the output of `to_dict`. Raises `UsageError` if a field is missing, unknown or wrong."""
        check_fields(data, _FIELDS, _REQUIRED, "a suite's identity")
        return cls(**data)


_FIELDS: Rules = {"name": (is_text, "text"), "version": (is_count, "a whole number"), "content_hash": (is_text, "text")}
_REQUIRED = required_fields(SuiteId)


def comparable(suite: Identified, other: Identified) -> None:
    """Raise `UsageError` with the reason unless results on the two suites can be compared."""
    if suite.name != other.name:
        raise UsageError(
            f"results on the suite {suite.name!r} cannot be compared with results on {other.name!r}: their tasks "
            "differ; evaluate both policies on one suite"
        )
    if suite.version != other.version:
        raise UsageError(
            f"results on versions {suite.version} and {other.version} of the suite {suite.name!r} cannot be compared: "
            "its tasks, or how they are played, have changed; evaluate both policies on one version"
        )
    if suite.content_hash != other.content_hash:
        raise UsageError(
            f"both results are on version {suite.version} of the suite {suite.name!r}, but its content differs "
            f"({suite.content_hash[:12]} and {other.content_hash[:12]}): the suite was changed without a new version; "
            "evaluate both policies on one of the two"
        )


@dataclass(frozen=True)
class SuiteEntry:
    """Pinned tasks of one environment, and how they are played."""

    name: str
    """Unique in the suite."""
    env: str
    """Id of the environment, or `module:Class`."""
    arguments: Mapping[str, Any]
    """Arguments of the environment, without those that the user passes (`data`)."""
    pins: Pins
    """Maps the ids of the tasks to their pinned hashes."""
    attempts: int
    """Trajectories per task."""
    limits: Limits
    """Limits of each episode; `max_in_flight` and `strict` are not part of the suite."""
    dialect: str | None
    """The format of tool calls; `None` leaves it to the policy."""
    temperature: float
    """Sampling temperature of policies that sample."""
    metrics: tuple[str, ...]
    """Names of the metrics to report (`agentgym.eval.suites.file`)."""
    data: Mapping[str, str]
    """Maps arguments that take files to the names under which the user passes their paths."""
    paths: Mapping[str, str]
    """The user's paths by those names."""

    @property
    def env_id(self) -> str:
        """Full id of the environment with its version, or `module:Class`. Raises `UsageError` if it is unknown."""
        return full_env_id(self.env)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the data that the user has not passed; without it, the entry cannot be played."""
        return tuple(name for name in self.data.values() if name not in self.paths)

    @cached_property
    def factory(self) -> EnvFactory:
        """Makes the environment of the entry. Raises `UsageError` if data is missing."""
        if self.missing:
            options = " ".join(f"--data {name}=PATH" for name in self.missing)
            raise UsageError(f"the entry {self.name!r} needs your data; name its file or folder: {options}")
        places = {argument: self.paths[name] for argument, name in self.data.items()}
        dialect = {} if self.dialect is None else {"dialect": self.dialect}
        return EnvFactory(self.env_id, {**self.arguments, **places, **dialect})

    @contextmanager
    def opened(self) -> Iterator[Env]:
        """Provide an environment of the entry, and close it. Raises `UsageError` if its arguments are not valid."""
        factory = self.factory
        try:
            env = make_env(factory.env_id, factory.kwargs)
        except UsageError as error:
            raise UsageError(f"entry {self.name!r}: {error}") from error
        with closed_after(env):
            yield env

    def tasks(self, env: Env) -> list[Task]:
        """Return the entry's tasks, after checking them against their pins.

        Args:
            env: An environment of the entry (`opened`).

        Raises:
            TaskError: A task is missing or differs from its pin.
        """
        return pinned_tasks(env.tasks, self.pins, f"entry {self.name!r}", self.places)

    @property
    def places(self) -> Mapping[str, str]:
        """Maps the user's paths to their names (`pins.pin_of`)."""
        return {path: name for name, path in self.paths.items()}

    def content(self) -> dict[str, Any]:
        """Return what determines the entry's results, as JSON data, without the location of the user's data."""
        limits = {name: value for name, value in asdict(self.limits).items() if name in _LIMITS}
        return {
            "name": self.name,
            "env": self.env_id,
            "arguments": dict(self.arguments),
            "pins": dict(self.pins),
            "attempts": self.attempts,
            "limits": limits,
            "dialect": self.dialect,
            "temperature": self.temperature,
            "data": dict(self.data),
        }


_LIMITS = frozenset(item.name for item in fields(LimitsPart))  # pyright: ignore[reportArgumentType]


UNPINNED = 0
"""The version of a suite without a file (`agentgym.eval.suites.suite`). Versions of files start at 1."""


@dataclass(frozen=True)
class Suite:
    """Pinned tasks of one or several environments."""

    name: str
    version: int
    description: str
    all_entries: tuple[SuiteEntry, ...]
    """Every entry, including those whose data is missing."""
    file: Path

    @property
    def entries(self) -> Sequence[SuiteEntry]:
        """The entries that can be played."""
        return [entry for entry in self.all_entries if not entry.missing]

    @property
    def skipped(self) -> Sequence[SuiteEntry]:
        """The entries whose data is missing."""
        return [entry for entry in self.all_entries if entry.missing]

    def entry(self, name: str) -> SuiteEntry:
        """Return the entry with this name. Raises `UsageError`, which lists the names, if it does not exist."""
        for entry in self.all_entries:
            if entry.name == name:
                return entry
        names = ", ".join(entry.name for entry in self.all_entries)
        raise UsageError(f"the suite {self.name!r} has no entry {name!r}; it has: {names}")

    @cached_property
    def content_hash(self) -> str:
        """Hash (hex SHA-256) of the tasks and of how they are played, without description and metrics."""
        content = [entry.content() for entry in self.all_entries]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def id(self) -> SuiteId:
        """The identity of the suite, to be stored with results."""
        return SuiteId(self.name, self.version, self.content_hash)


def entry_of(part: EntryPart, pins: Pins, paths: Mapping[str, str]) -> SuiteEntry:
    """Return the entry that a part of a suite's file describes."""
    return SuiteEntry(
        name=name_of(part),
        env=part.env,
        arguments=part.arguments,
        pins=pins,
        attempts=part.attempts,
        limits=Limits(**asdict(part.limits)),  # pyright: ignore[reportArgumentType]
        dialect=part.dialect,
        temperature=part.sampling.temperature,
        metrics=tuple(part.metrics),
        data=part.data,
        paths={name: path for name, path in paths.items() if name in part.data.values()},
    )


@dataclass(frozen=True)
class ListedTasks(SuiteEntry):
    """An entry with a list of tasks, such as from a manifest."""

    task_list: Sequence[Task] = ()

    def tasks(self, env: Env) -> list[Task]:
        """Return the tasks."""
        return list(self.task_list)


def one_off(
    env: str, arguments: Mapping[str, Any], tasks: Sequence[Task], *, attempts: int, limits: Limits, temperature: float
) -> Suite:
    """Return tasks of an environment as a suite of version `UNPINNED`.

    Args:
        env: Id of the environment, or `module:Class`.
        arguments: Its arguments.
        tasks: The tasks, in playing order.
        attempts: Trajectories per task.
        limits: Limits of each episode.
        temperature: Sampling temperature of policies that sample.
    """
    name = full_env_id(env).removeprefix("agentgym/")
    pins = {task.id: task.hash for task in tasks}
    dialect = None  # a chosen dialect is in the arguments
    entry = ListedTasks(name, env, arguments, pins, attempts, limits, dialect, temperature, (), {}, {}, tasks)
    return Suite(name, UNPINNED, "", (entry,), Path())
