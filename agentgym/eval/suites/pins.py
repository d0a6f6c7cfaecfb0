"""Pins: the ids of a suite's tasks with their content hashes.

The hash of a task from the user's files must not depend on their location, so the suite's name for the data replaces
its path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.base.errors import TaskError, UsageError
from agentgym.base.fields import Rules, check_fields, is_count, is_text, object_of, required_fields
from agentgym.base.strict_json import JsonProblem, read_object
from agentgym.core.foreign import as_usage_error
from agentgym.core.task import Task, TaskSource
from agentgym.core.task_files import moved

HASH_CHARS = 16
"""Pinned hexadecimal digits of a hash; 64 bits are enough to distinguish tasks."""

INCOMPLETE = ""
"""The content hash of a suite with an entry that has no tasks yet."""

Pins = Mapping[str, str]
"""Maps the ids of tasks to their pinned hashes."""


@dataclass(frozen=True)
class PinFile:
    """The contents of `NAME.pins.json`."""

    version: int
    """The suite's version when it was pinned."""
    content_hash: str
    """The suite's content hash when it was pinned, which reveals later changes."""
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
    """Return the pinned hash of a task.

    Args:
        task: The task.
        places: Maps the user's paths to the names that replace them.
    """
    return moved(task, {path: f"<{name}>" for path, name in (places or {}).items()}).hash[:HASH_CHARS]


@dataclass
class PinState:
    """The current state of pinned tasks."""

    tasks: list[Task] = field(default_factory=list)
    """The existing tasks, in the order of the pins, changed or not."""
    gone: dict[str, str] = field(default_factory=dict)
    """Maps the ids of missing tasks to the reason."""
    changed: list[str] = field(default_factory=list)
    """Ids of the tasks whose content differs from their pin."""


def find_pinned(source: TaskSource, pins: Pins, places: Mapping[str, str] | None = None) -> PinState:
    """Return the tasks of `source` with the pinned ids, and how they differ from their pins.

    Raises:
        UsageError: The source failed to load a task, so that its state is unknown.
    """
    state = PinState()
    for task_id, pinned in pins.items():
        try:
            with as_usage_error(f"the task {task_id!r} cannot be loaded"):
                task = source.find(task_id)
        except TaskError as error:
            state.gone[task_id] = str(error)
            continue
        state.tasks.append(task)
        if pin_of(task, places) != pinned:
            state.changed.append(task_id)
    return state


def pinned_tasks(source: TaskSource, pins: Pins, what: str, places: Mapping[str, str] | None = None) -> list[Task]:
    """Return exactly the pinned tasks.

    Args:
        source: Where the tasks come from.
        pins: Their ids and hashes.
        what: Name of the entry, for the message.
        places: Maps the user's paths to the names that replace them in hashes.

    Raises:
        TaskError: A task is missing or has changed.
    """
    state = find_pinned(source, pins, places)
    if state.gone:
        first, reason = next(iter(state.gone.items()))
        raise TaskError(
            f"{what}: {len(state.gone)} of {len(pins)} pinned tasks cannot be found; the first: {first!r} ({reason}). "
            f"{_ADVICE}"
        )
    if state.changed:
        raise TaskError(
            f"{what}: {len(state.changed)} of {len(pins)} tasks differ from their pins; the first: "
            f"{state.changed[0]!r}. {_ADVICE}"
        )
    return state.tasks


_ADVICE = (
    "Results on other tasks would not be comparable. Use the release or the data that the suite was pinned with, or "
    "pin the current tasks as a new version: agentgym tasks pin SUITE.yaml"
)
