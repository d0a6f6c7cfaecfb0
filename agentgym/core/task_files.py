"""`TaskFiles`: declares the files that an environment can load tasks from, instead of generating them.

Declared as `Env.files`; read by `agentgym tasks sources`, recipes and the constructor.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.base.choices import explicit_choices
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.base.loading import load_named
from agentgym.core.foreign import describe, place_of
from agentgym.core.task import Task, TaskSource

_KEPT = 8
"""Number of most recently used sources to keep."""


@dataclass(eq=False)
class _Loaded:
    """A task source that is loaded on first use."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    source: TaskSource | None = None


_lock = threading.Lock()
_recent: OrderedDict[str, _Loaded] = OrderedDict()


def shared(loader: str, path: str | Path, options: Mapping[str, Any]) -> TaskSource:
    """Return the task source of a file or folder, loading it on first use in this process.

    Args:
        loader: `module:Class`; called with the path and the options.
        path: The file or folder.
        options: Further arguments of the class, as JSON data.
    """
    key = _key(loader, Path(path), options)
    with _lock:
        loaded = _recent.setdefault(key, _Loaded())
        _recent.move_to_end(key)
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)
    with loaded.lock:
        if loaded.source is None:
            loaded.source = load_named(loader, "a task source class")(path, **options)
        assert loaded.source is not None
        return loaded.source


def _key(loader: str, path: Path, options: Mapping[str, Any]) -> str:
    """Return a key that identifies a source and the state of its files."""
    return json.dumps([loader, str(path.absolute()), options, [*state_of(path)]], sort_keys=True, default=repr)


def state_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and modification time of `path` and, if it is a folder, of its contents two levels deep."""
    here = _inside(path)
    for file in [path, *here, *(entry for inner in here for entry in _inside(inner))]:
        with suppress(OSError):  # a dangling link or a file just removed; loading reports it
            stat = file.stat()
            yield str(file), stat.st_size, stat.st_mtime_ns


def _inside(folder: Path) -> list[Path]:
    """Return the contents of a folder; nothing if it is not a folder or not readable."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _after_fork_in_child() -> None:
    """Replace all locks: a lock that another thread held at the fork would never be released in the child."""
    global _lock
    _lock = threading.Lock()
    for loaded in _recent.values():
        loaded.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def moved(task: Task, places: Mapping[str, str]) -> Task:
    """Return a task with other paths in its data.

    Args:
        task: The task.
        places: Maps a path to its replacement, alone or as a prefix of a longer path.
    """
    return replace(task, data=_moved(task.data, places)) if places else task


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _moved(item, places) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_moved(item, places) for item in value]
    for path, other in places.items():
        if value == path or (isinstance(value, str) and value.startswith(f"{path}/")):
            return f"{other}{value.removeprefix(path)}"
    return value


_REASON_CHARS = 500
_log = logging.getLogger(__name__)


class Why(StrEnum):
    """The reason why an entry yields no task."""

    BROKEN = "broken"
    """A field, a file or the gold is missing or wrong."""
    REPEATED = "repeated"
    """An earlier entry has the same problem or the same id."""
    UNSUPPORTED = "unsupported"
    """The entry is valid but cannot be staged or graded here."""
    DEGENERATE = "degenerate"
    """An empty or constant answer would be correct."""


@dataclass(frozen=True)
class LeftOut:
    """An entry that yields no task."""

    where: str
    """File and line (or number in its list)."""
    reason: str
    why: Why = Why.BROKEN

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Unusable(Exception):
    """An entry yields no task; the message gives the reason without the entry's location."""

    def __init__(self, reason: str, why: Why = Why.BROKEN):
        super().__init__(reason)
        self.why = why


@runtime_checkable
class LeavesOut(Protocol):
    """A task source that may have excluded entries."""

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """The entries that yield no task."""
        ...


class Quarantine:
    """Collects the entries of one source that yield no task.

    Args:
        source: Name of the source, as the user gave it.
        strict: Raise `UsageError` for the first broken entry.
    """

    def __init__(self, source: str, strict: bool = False):
        self._source, self._strict = source, strict
        self._entries: list[LeftOut] = []

    @property
    def entries(self) -> tuple[LeftOut, ...]:
        """The entries left out so far."""
        return tuple(self._entries)

    def add(self, where: str, reason: str, why: Why = Why.BROKEN) -> None:
        """Exclude an entry. Raises `UsageError` for a broken entry in strict mode."""
        entry = LeftOut(_printable(where), _shortened(_printable(" ".join(reason.split()))), why)
        if self._strict and why is Why.BROKEN:
            raise UsageError(f"{entry} (without strict, it is left out)")
        self._entries.append(entry)

    @contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Exclude the entry at `where` if the block raises `Unusable` or any unforeseen error."""
        try:
            yield
        except Unusable as error:
            self.add(where, str(error), error.why)
        except UnicodeEncodeError:
            self.add(where, "its text holds half of a character (a lone surrogate)")
        except (AgentGymError, MemoryError):
            raise
        except Exception as error:  # one bad entry must not lose the others
            self.add(where, f"it cannot be read: {describe(error)}{place_of(error)}")

    def close(self, kept: int) -> None:
        """Log a one-line summary of the excluded entries, if any.

        Raises:
            UsageError: No entry is usable.
        """
        if not kept:
            raise UsageError(self._nothing_kept())
        if self._entries:
            _log.warning("%s: %s", self._source, counted(self._entries, kept))

    def _nothing_kept(self) -> str:
        if not self._entries:
            return f"{self._source}: there is no entry"
        return f"{self._source}: no entry of {len(self._entries)} can be used; the first: {self._entries[0]}"


def _shortened(reason: str) -> str:
    """Return a shortened reason, which may quote the entry."""
    return reason if len(reason) <= _REASON_CHARS else f"{reason[:_REASON_CHARS]}…"


def _printable(text: str) -> str:
    """Return a text on one line: file names and entries may contain line breaks and undecodable bytes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(entries: Sequence[LeftOut], kept: int) -> str:
    """Return a one-line summary of the excluded entries by reason, with the first broken one as an example."""
    counts = Counter(entry.why for entry in entries)
    summary = f"{len(entries)} of {len(entries) + kept} entries are left out ("
    summary += ", ".join(f"{counts[why]} {why}" for why in Why if counts[why]) + ")"
    first = next((entry for entry in entries if entry.why is Why.BROKEN), None)
    return f"{summary}; the first broken one: {first}" if first else summary


STRICT = "strict"
STRICT_MEANS = "true refuses a broken entry, instead of leaving it out (in commands: --strict)"


def with_defaults(
    files: TaskFiles | None, defaults: Mapping[str, Any], user_arguments: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments of an environment: the user's, completed by `defaults`.

    If tasks come from files, defaults that choose among generated tasks are dropped with a warning in the log.

    Args:
        files: The task files that the environment accepts, if any.
        defaults: Arguments from a recipe or from a model's training.
        user_arguments: Arguments from the user.
        source: Name of the origin of the defaults, for the warning.
    """
    dropped = files.contradicted(defaults, user_arguments) if files is not None else []
    if files is not None and dropped:
        _log.warning("tasks come from %s=...: %s of %s do not apply", files.argument, ", ".join(dropped), source)
    return {**{name: value for name, value in defaults.items() if name not in dropped}, **user_arguments}


@dataclass(frozen=True)
class Layout:
    """A file layout of published or stored tasks."""

    name: str
    """Name of the layout, such as `Spider`."""
    looks: str
    """Description of the files."""
    settings: str
    """The `--set` arguments, such as `folder=spider_data`."""


@dataclass(frozen=True)
class TaskFiles:
    """Files that an environment can load tasks from.

    Args:
        argument: The environment's argument that names the file or folder.
        loader: `module:Class` of the task source; called with the path and the options.
        options: Further arguments of the loader, each with a short description. `strict` is always one.
        layouts: The layouts that the loader can read.
        generated: The arguments that choose among generated tasks. With files, only those also in `options` apply.
    """

    argument: str
    loader: str
    options: Mapping[str, str]
    layouts: tuple[Layout, ...]
    generated: frozenset[str] = frozenset()

    @property
    def arguments(self) -> frozenset[str]:
        """All arguments of the environment that choose its tasks, besides `tasks`."""
        return self.generated | {*self.options, self.argument, STRICT}

    def divide(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split an environment's arguments into those that choose its tasks and all others."""
        choices = {name: value for name, value in arguments.items() if name in self.arguments}
        return choices, {name: value for name, value in arguments.items() if name not in choices}

    def contradicted(self, defaults: Iterable[str], user_arguments: Mapping[str, Any]) -> list[str]:
        """Return the defaults that choose among generated tasks although the user names files or a source."""
        if user_arguments.get(self.argument) is None and user_arguments.get("tasks") is None:
            return []
        return sorted((self.generated - set(self.options)).intersection(defaults).difference(user_arguments))

    def generator_choices(self, choices: Mapping[str, Any], **renamed: str) -> dict[str, Any]:
        """Return the choices that apply to generated tasks, under the names that their source uses."""
        names = sorted(name for name in self.generated if choices.get(name) is not None)
        return {renamed.get(name, name): choices[name] for name in names}

    def source(self, tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource | None:
        """Return the task source for an environment's arguments, or `None` to generate tasks.

        Args:
            tasks: The user's own source.
            choices: The arguments that choose tasks, by name; `None` counts as absent.

        Raises:
            UsageError: The arguments contradict each other, or the files are unusable.
        """
        explicit = explicit_choices(tasks, {name: value for name, value in choices.items() if name != STRICT})
        if tasks is not None:
            return tasks
        if self.argument not in explicit:
            if alone := sorted(set(explicit) & set(self.options) - self.generated):
                raise UsageError(f"{alone[0]}=... is for tasks from files; pass {self.argument}=... too")
            return None
        if others := sorted(set(explicit) - set(self.options) - {self.argument}):
            raise UsageError(
                f"tasks from {self.argument}=... have no {', '.join(others)} to choose; "
                f"there are: {', '.join([*self.options, STRICT])}"
            )
        path = explicit[self.argument]
        if not isinstance(path, str | Path):
            raise UsageError(f"{self.argument} must be the path of a file or folder, not {path!r}")
        options = {name: value for name, value in explicit.items() if name != self.argument}
        if choices.get(STRICT):
            options[STRICT] = True
        return shared(self.loader, Path(path).expanduser(), options)
