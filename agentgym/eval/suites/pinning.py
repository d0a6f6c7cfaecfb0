"""Pins the tasks of suites.

The version of a suite increases when its content changes. Comments and layout of its YAML file are preserved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from agentgym.base import yaml12
from agentgym.base.errors import UsageError
from agentgym.core.task import TEST, Task, default_split
from agentgym.eval.suites.file import SuiteFile, checked, name_of, read_map, read_suite_file
from agentgym.eval.suites.loading import assemble, checked_data, different
from agentgym.eval.suites.pins import INCOMPLETE, PinFile, Pins, PinState, find_pinned, pin_file_of, pin_of, read_pins
from agentgym.eval.suites.suite import SuiteEntry

_NAME = re.compile(r"^name:.*", re.MULTILINE)
_VERSION = re.compile(r"^version:[ \t]*\d+", re.MULTILINE)


@dataclass(frozen=True)
class Pinned:
    """The result of pinning."""

    file: Path
    version: int
    """The version after pinning."""
    was: int
    """The version before."""
    is_same: bool
    """Whether pinning changed nothing."""
    tasks: int
    """Number of pinned tasks."""
    changed: Sequence[str] = ()
    """Ids of tasks whose content differs from the earlier pin."""
    gone: Sequence[str] = ()
    """Ids of tasks that no longer exist; their pins are removed."""
    skipped: Sequence[str] = ()
    """Names of entries whose data is missing; their pins are kept."""
    unpinned: Sequence[str] = ()
    """Names of entries without tasks; the suite cannot be used yet."""


def pin_suite(path: Path, data: Mapping[str, str] | None = None) -> Pinned:
    """Pin the tasks of a suite with their current content.

    Args:
        path: The suite's YAML file. Its pins determine its tasks.
        data: Paths of the user's data by name.

    Raises:
        UsageError: The suite cannot be read or written, or an entry has lost all its tasks.
    """
    file, before = _read(path)
    suite = assemble(file, {} if before is None else before.entries, path, checked_data(file, data or {}))
    states = {entry.name: _now(entry) for entry in suite.entries if entry.pins}
    for name, state in states.items():
        if not state.tasks:
            raise UsageError(f"{path}: none of the tasks of the entry {name!r} exists; {_how(path, name)}")
    pins = {
        entry.name: _pins(states[entry.name].tasks, entry.places) if entry.name in states else entry.pins
        for entry in suite.all_entries
    }
    return replace(
        _write(path, file, pins, before),
        changed=[task_id for state in states.values() for task_id in state.changed],
        gone=[task_id for state in states.values() for task_id in state.gone],
        skipped=[entry.name for entry in suite.skipped],
    )


def pin_tasks(path: Path, name: str, split: str | None, number: int, data: Mapping[str, str] | None = None) -> Pinned:
    """Replace the tasks of an entry of a suite by up to `number` different tasks of a split.

    Args:
        path: The suite's YAML file. It need not have pins yet.
        name: The entry.
        split: The split; by default `test` or the nearest one.
        number: Maximum number of tasks, spread evenly over a larger split.
        data: Paths of the user's data by name.

    Raises:
        UsageError: The suite cannot be read or written, or data of the entry is missing.
        TaskError: The split does not exist.
    """
    file, before = _read(path)
    pinned = {} if before is None else before.entries
    entry = assemble(file, pinned, path, checked_data(file, data or {})).entry(name)
    with entry.opened() as env:
        tasks = different(env.tasks, split or default_split(env.tasks, TEST), number)
    return _write(path, file, {**pinned, name: _pins(tasks, entry.places)}, before)


def copy_suite(source: Path, path: Path) -> None:
    """Copy a suite under the name of another file, as version 1. The copy must be pinned before use.

    Raises:
        UsageError: A file cannot be read, or the name of the new file is not valid for a suite.
    """
    named = _NAME.sub(lambda _: _name_line(path), _text(source), count=1)
    text = _VERSION.sub("version: 1", named, count=1)
    checked(yaml12.load(text), str(path))
    pins = PinFile(1, INCOMPLETE, read_pins(pin_file_of(source)).entries)
    path.write_text(text, encoding="utf-8")
    pins.write(pin_file_of(path))


def add_entry(
    path: Path, entry: Mapping[str, Any], split: str | None, number: int, data: Mapping[str, str] | None = None
) -> Pinned:
    """Add an entry to a suite, and pin its tasks like `pin_tasks`. A missing suite is created.

    Args:
        path: The suite's YAML file.
        entry: The entry, in the format of such a file.
        split: The split; by default `test` or the nearest one.
        number: Maximum number of tasks.
        data: Paths of the user's data by name.

    Raises:
        UsageError: The suite cannot be read or written, or already has an entry of that name.
    """
    is_new = not path.exists()
    text = _beginning(path) if is_new else _text(path)
    values = yaml12.load(text) | {"entries": []} if is_new else read_map(path)
    checked({**values, "entries": [*values["entries"], dict(entry)]}, str(path))
    path.write_text(_with_entry(text, values, entry, path), encoding="utf-8")
    try:
        return pin_tasks(path, name_of(read_suite_file(path).entries[-1]), split, number, data)
    except BaseException:
        if is_new:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
        raise


def _read(path: Path) -> tuple[SuiteFile, PinFile | None]:
    """Return a suite's file and its pins, if it has any."""
    pins = pin_file_of(path)
    return read_suite_file(path), read_pins(pins) if pins.exists() else None


def _how(path: Path, name: str) -> str:
    return f"pin others: agentgym tasks pin {path} --entry {name}"


def _now(entry: SuiteEntry) -> PinState:
    with entry.opened() as env:
        return find_pinned(env.tasks, entry.pins, entry.places)


def _pins(tasks: Sequence[Task], places: Mapping[str, str]) -> dict[str, str]:
    return {task.id: pin_of(task, places) for task in tasks}


def _write(path: Path, file: SuiteFile, pins: Mapping[str, Pins], before: PinFile | None) -> Pinned:
    """Write the pins of a suite, and increase its version in both files if its content has changed.

    While an entry of a new suite has no tasks, the suite cannot be used, and its version does not change.
    """
    names = [name_of(part) for part in file.entries]
    pins = {name: pins[name] for name in names if pins.get(name)}
    unpinned = [name for name in names if name not in pins]
    content_hash = INCOMPLETE if unpinned else assemble(file, pins, path, {}).content_hash
    version = file.version
    if before is not None and before.content_hash not in (INCOMPLETE, content_hash):
        version = max(version, before.version + 1)
    if version != file.version:
        path.write_text(_with_version(path, version), encoding="utf-8")
    PinFile(version, content_hash, pins).write(pin_file_of(path))
    was = version if before is None else before.version
    is_same = before is not None and before.entries == pins and was == version
    return Pinned(path, version, was, is_same, sum(map(len, pins.values())), unpinned=unpinned)


def _with_version(path: Path, version: int) -> str:
    text, replaced = _VERSION.subn(f"version: {version}", _text(path), count=1)
    if not replaced:
        raise UsageError(f"{path}: cannot find the line of the version; write it as `version: {version}`")
    return text


def _beginning(path: Path) -> str:
    return f'{_name_line(path)}\nversion: 1\ndescription: ""\nentries:\n'


def _name_line(path: Path) -> str:
    """Return the line that names a suite after its file, quoted if YAML would not read the name as text."""
    return yaml12.dump({"name": path.stem}).strip()


def _text(path: Path) -> str:
    """Return the text of a suite's file, without a byte order mark."""
    return path.read_text(encoding="utf-8-sig")


def _with_entry(text: str, values: Mapping[str, Any], entry: Mapping[str, Any], path: Path) -> str:
    """Return the text of a suite's file with an entry appended. Raises `UsageError` unless the entries come last."""
    lines = yaml12.dump([dict(entry)]).splitlines()
    expected = {**values, "entries": [*values["entries"], dict(entry)]}
    for indent in ("  ", ""):
        longer = text.rstrip("\n") + "\n" + "".join(f"{indent}{line}\n" for line in lines)
        with suppress(yaml.YAMLError):
            if yaml12.load(longer) == expected:
                return longer
    raise UsageError(
        f"{path}: an entry can be added only if `entries:` is the last key, with one line starting with `- ` per entry"
    )
