"""Pins: the ids of a suite's tasks with their content hashes, and the tasks that they stand for.

The hash of a task read from the user's files must not depend on where the files are, so the path that the user gave
counts as the name under which the suite asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import TaskError, UsageError
from agentgym.foreign.errors import as_usage_error
from agentgym.records.fields import Rules, check_fields, is_count, is_text, object_of, required_fields
from agentgym.records.strict_json import JsonProblem, read_object
from agentgym.task import Task, TaskSource
from agentgym.task_files.moving import moved

HASH_CHARS = 16
"""How many of a hash's hexadecimal digits are pinned: 64 bits tell any two tasks apart."""

INCOMPLETE = ""
"""Stands for the content hash of a suite in which an entry has no tasks yet."""

Pins = Mapping[str, str]
"""Maps the ids of tasks to their pinned hashes."""


@dataclass(frozen=True)
class PinFile:
    """The contents of `NAME.pins.json`."""

    version: int
    """The suite's version when it was pinned."""
    content_hash: str
    """The suite's content hash at that time; another one now shows that the suite was changed afterwards."""
    entries: Mapping[str, Pins]
    """The pins of each entry, by its name."""

    def write(self, path: Path) -> None:
        """Write the file, one task per line."""
        data = {"version": self.version, "content_hash": self.content_hash, "entries": self.entries}
        path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


_FIELDS: Rules = {
    "version": (is_count, "a whole number"),
    "content_hash": (is_text, "text"),
    "entries": (object_of(object_of(is_text)), "a map of entries to maps of task ids to hashes"),
}
_REQUIRED = required_fields(PinFile)


def pin_file_of(suite_file: Path) -> Path:
    """Return the path of the pins that belong to a suite's YAML file."""
    return suite_file.with_name(f"{suite_file.stem}.pins.json")


def read_pins(path: Path) -> PinFile:
    """Read a file of pins. Raises `UsageError` if it is missing or malformed."""
    advice = f"write it with: agentgym tasks pin {path.name.removesuffix('.pins.json')}.yaml"
    try:
        data = read_object(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the pins {str(path)!r}: {error.strerror or error}; {advice}") from error
    except (UnicodeDecodeError, JsonProblem) as error:
        raise UsageError(f"{path}: {error}; {advice}") from error
    check_fields(data, _FIELDS, _REQUIRED, str(path))
    return PinFile(**data)


def pin_of(task: Task, places: Mapping[str, str] | None = None) -> str:
    """Return what is pinned of a task.

    Args:
        task: The task.
        places: Maps paths that the user gave to the names that replace them.
    """
    return moved(task, {path: f"<{name}>" for path, name in (places or {}).items()}).hash[:HASH_CHARS]


@dataclass
class Found:
    """What became of pinned tasks."""

    tasks: list[Task] = field(default_factory=list)
    """Those found, in the order of the pins, changed or not."""
    gone: dict[str, str] = field(default_factory=dict)
    """Maps the ids of those that the source no longer has to the reason."""
    changed: list[str] = field(default_factory=list)
    """The ids of those whose content differs from what was pinned."""


def find_pinned(source: TaskSource, pins: Pins, places: Mapping[str, str] | None = None) -> Found:
    """Return the tasks of `source` with the pinned ids, and how they differ from what was pinned.

    Raises:
        UsageError: The source broke on a task, so that nothing is known about it.
    """
    found = Found()
    for task_id, pinned in pins.items():
        try:
            with as_usage_error(f"the task {task_id!r} cannot be loaded"):
                task = source.find(task_id)
        except TaskError as error:
            found.gone[task_id] = str(error)
            continue
        found.tasks.append(task)
        if pin_of(task, places) != pinned:
            found.changed.append(task_id)
    return found


def pinned_tasks(source: TaskSource, pins: Pins, what: str, places: Mapping[str, str] | None = None) -> list[Task]:
    """Return exactly the pinned tasks.

    Args:
        source: Where the tasks come from.
        pins: Their ids and hashes.
        what: Name of the entry, for the message.
        places: Maps paths that the user gave to the names that replace them in hashes.

    Raises:
        TaskError: A task is gone or has changed; the message says how many, names the first, and says what to do.
    """
    found = find_pinned(source, pins, places)
    if found.gone:
        first, reason = next(iter(found.gone.items()))
        raise TaskError(
            f"{what}: {len(found.gone)} of {len(pins)} pinned tasks cannot be found; the first: {first!r} ({reason}). "
            f"{_ADVICE}"
        )
    if found.changed:
        raise TaskError(
            f"{what}: {len(found.changed)} of {len(pins)} tasks differ from what was pinned; the first: "
            f"{found.changed[0]!r}. {_ADVICE}"
        )
    return found.tasks


_ADVICE = (
    "Results on other tasks would not compare. Use the release or the data that the suite was pinned with, or pin the "
    "tasks as they are now, as a new version: agentgym tasks pin SUITE.yaml"
)
