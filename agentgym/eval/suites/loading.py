"""Reads suites: bundled ones by name, your own by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.base.choices import nearest
from agentgym.base.components import SUITES
from agentgym.base.errors import UsageError
from agentgym.base.loading import load_named
from agentgym.core.foreign import as_usage_error
from agentgym.core.making import closed_after, full_env_id
from agentgym.core.task import Task, TaskSource, check_split
from agentgym.eval.overlap import problem_tokens
from agentgym.eval.suites.file import SuiteFile, name_of, read_suite_file
from agentgym.eval.suites.pins import Pins, PinState, find_pinned, pin_file_of, read_pins
from agentgym.eval.suites.suite import Suite, SuiteEntry, entry_of
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits

ENDINGS = (".yaml", ".yml")
"""File name endings of suites."""


def bundled_suites() -> tuple[str, ...]:
    """Return the names of the bundled suites."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def load_suite(name_or_path: str | Path, data: Mapping[str, str | Path] | None = None) -> Suite:
    """Read a suite and its pins. No environment is made and no task is generated.

    Args:
        name_or_path: Name of a bundled suite, or the path of a YAML file.
        data: Paths of the user's data, by the suite's names for them; entries whose data is missing are `skipped`.

    Raises:
        UsageError: The suite does not exist, is malformed or was changed after pinning, or `data` has an unknown name
            or a path that does not exist.
    """
    path = suite_path(name_or_path)
    file = read_suite_file(path)
    _check_environments(file, path)
    pinned = read_pins(pin_file_of(path))
    _check_same_entries(file, pinned.entries, path)
    suite = assemble(file, pinned.entries, path, checked_data(file, data or {}))
    if (suite.version, suite.content_hash) != (pinned.version, pinned.content_hash):
        raise UsageError(
            f"{path} was changed after version {pinned.version} was pinned; pin it again, which increases its version: "
            f"agentgym tasks pin {path}"
        )
    return suite


def suite_path(name_or_path: str | Path) -> Path:
    """Return the path of a suite's YAML file. Raises `UsageError` if it does not exist."""
    path = Path(name_or_path).expanduser()
    if path.suffix not in ENDINGS:
        path = _folder() / f"{name_or_path}.yaml"
    if not path.is_file():
        names = bundled_suites()
        near = nearest(str(name_or_path), names)
        raise UsageError(f"unknown suite {str(name_or_path)!r}{near} Name a YAML file or one of: {', '.join(names)}")
    return path


def is_suite(name: str) -> bool:
    """Whether `name` is the name of a bundled suite or looks like the path of a suite's file."""
    return name.endswith(ENDINGS) or name in bundled_suites()


def assemble(file: SuiteFile, pins: Mapping[str, Pins], path: Path, paths: Mapping[str, str]) -> Suite:
    """Return the suite that a file and pins describe.

    Args:
        file: The contents of the YAML file.
        pins: The pins by the names of entries; a missing entry is not pinned.
        path: The YAML file.
        paths: Paths of the user's data by name.
    """
    entries = tuple(entry_of(part, pins.get(name_of(part), {}), paths) for part in file.entries)
    return Suite(file.name, file.version, file.description, entries, path)


def _folder() -> Path:
    return load_named(SUITES, "a folder", lambda value: isinstance(value, Path))


def _check_environments(file: SuiteFile, path: Path) -> None:
    """Raise `UsageError` for an environment that is not registered, without importing its class."""
    for index, part in enumerate(file.entries):
        try:
            full_env_id(part.env)
        except UsageError as error:
            raise UsageError(f"{path}: entries[{index}].env: {error}") from error


def _check_same_entries(file: SuiteFile, pins: Mapping[str, Pins], path: Path) -> None:
    """Raise `UsageError` unless every entry has pins, and every pin an entry."""
    names = [name_of(part) for part in file.entries]
    advice = f"pin the suite again: agentgym tasks pin {path}"
    for name in names:
        if not pins.get(name):
            raise UsageError(f"{pin_file_of(path)}: the entry {name!r} has no pinned task; {advice}")
    if unknown := [name for name in pins if name not in names]:
        raise UsageError(f"{pin_file_of(path)}: {path} has no entry {unknown[0]!r}; {advice}")


def checked_data(file: SuiteFile, data: Mapping[str, str | Path]) -> dict[str, str]:
    """Return the paths of the user's data by name. Raises `UsageError` for an unknown name or a missing path."""
    names = {name for part in file.entries for name in part.data.values()}
    paths: dict[str, str] = {}
    for name, path in data.items():
        if name not in names:
            advice = f"It takes: {', '.join(sorted(names))}" if names else "It takes no data."
            raise UsageError(f"the suite {file.name!r} takes no data {name!r}{nearest(name, names)} {advice}")
        place = Path(path).expanduser()
        if not place.exists():
            raise UsageError(f"data {name}: {str(path)!r} does not exist")
        paths[name] = str(place)
    return paths


@dataclass(frozen=True)
class TaskSet:
    """A set of tasks of one environment."""

    place: str
    """The entry of a suite, or the split."""
    factory: EnvFactory
    tasks: Sequence[Task]
    limits: Limits = field(default_factory=Limits)


def set_of_entry(entry: SuiteEntry) -> tuple[TaskSet, PinState]:
    """Return the pinned tasks of an entry that still exist, and how they differ from their pins."""
    with entry.opened() as env:
        state = find_pinned(env.tasks, entry.pins, entry.places)
    # Solutions write calls in the environment's own dialect.
    kwargs = {name: value for name, value in entry.factory.kwargs.items() if name != "dialect"}
    return TaskSet(entry.name, EnvFactory(entry.factory.env_id, kwargs), state.tasks, entry.limits), state


def sets_of_env(factory: EnvFactory, splits: Sequence[str] | None, number: int) -> list[TaskSet]:
    """Return tasks of the splits of an environment.

    Args:
        factory: Makes the environment.
        splits: Names of the splits; `None` for all.
        number: Maximum number of tasks per split, spread evenly over a larger split.
    """
    with closed_after(factory()) as env:
        names = env.tasks.splits if splits is None else [check_split(env.tasks, split) for split in splits]
        return [TaskSet(split, factory, list(spread(env.tasks, split, number))) for split in names]


def spread(source: TaskSource, split: str, number: int) -> Iterator[Task]:
    """Yield up to `number` tasks, spread evenly over a finite split, or the first ones of an endless split."""
    size = source.size(check_split(source, split))
    count = number if size is None else min(number, size)
    for index in range(count):
        place = index if size is None else index * size // count
        with as_usage_error(f"task {place} of the split {split!r} cannot be loaded"):
            task = source.get(split, place)
        yield task


def different(source: TaskSource, split: str, number: int) -> list[Task]:
    """Return up to `number` different problems of a split, chosen like `spread`.

    Of an endless split, up to ten times as many tasks are examined.
    """
    limit = number if source.size(check_split(source, split)) is not None else 10 * number
    by_tokens: dict[tuple[str, ...], Task] = {}
    for task in spread(source, split, limit):
        by_tokens.setdefault(tuple(problem_tokens(task)), task)
        if len(by_tokens) == number:
            break
    return list(by_tokens.values())
