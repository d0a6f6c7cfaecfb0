"""Writes pins: those of a suite as its tasks are now, and those of tasks that are added to one.

The version of a suite is raised when its content changes. Comments and layout of its YAML file are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from agentgym import yaml12
from agentgym.errors import UsageError
from agentgym.suites.file import SuiteFile, checked, name_of, read_map, read_suite_file
from agentgym.suites.loading import assemble
from agentgym.suites.pins import Found, PinFile, Pins, find_pinned, pin_file_of, pin_of, read_pins
from agentgym.suites.suite import SuiteEntry
from agentgym.task import Task

_VERSION = re.compile(r"^version:[ \t]*\d+", re.MULTILINE)


@dataclass(frozen=True)
class Pinned:
    """What pinning did."""

    file: Path
    version: int
    """The version now."""
    was: int | None
    """The version before; `None` for a new suite."""
    tasks: int
    """Number of pinned tasks."""
    changed: Sequence[str] = ()
    """Ids of tasks whose content differs from what was pinned."""
    gone: Sequence[str] = ()
    """Ids of tasks that no longer exist; their pins are removed."""
    skipped: Sequence[str] = ()
    """Names of entries whose data was not given; their pins are kept."""


def pin_suite(path: Path, data: Mapping[str, str] | None = None) -> Pinned:
    """Pin the tasks of a suite as they are now.

    Args:
        path: The suite's YAML file. Its pins say which tasks it has.
        data: Paths of the user's data by name.

    Raises:
        UsageError: The suite cannot be read or written, or none of an entry's tasks is left.
    """
    file, before = read_suite_file(path), read_pins(pin_file_of(path))
    suite = assemble(file, before.entries, path, data or {})
    found = {entry.name: _now(entry) for entry in suite.entries}
    for name, one in found.items():
        if not one.tasks:
            raise UsageError(f"{path}: the entry {name!r} has no task that still exists; pin others with: {_HOW}")
    pins = {
        entry.name: _pins(found[entry.name].tasks, entry.places) if entry.name in found else entry.pins
        for entry in suite.all_entries
    }
    done = _write(path, file, pins, before)
    return replace(
        done,
        changed=[task_id for one in found.values() for task_id in one.changed],
        gone=[task_id for one in found.values() for task_id in one.gone],
        skipped=[entry.name for entry in suite.skipped],
    )


_HOW = "agentgym tasks pin ENV --out SUITE.yaml"


def pin_tasks(path: Path, entry: Mapping[str, Any], tasks: Sequence[Task], places: Mapping[str, str]) -> Pinned:
    """Add an entry to a suite, or give one other tasks. A suite that does not exist is begun.

    Args:
        path: The suite's YAML file.
        entry: The entry as it stands in such a file. One of the same name is kept if it has the same environment,
            arguments and data, and gets these tasks.
        tasks: The tasks of the entry.
        places: Maps the paths of the user's data to their names.

    Raises:
        UsageError: The suite cannot be read or written, or has another entry of that name.
    """
    is_new = not path.exists()
    text = _beginning(path) if is_new else path.read_text(encoding="utf-8")
    values = {"name": path.stem, "version": 1, "entries": []} if is_new else read_map(path)
    before = None if is_new else read_pins(pin_file_of(path))
    wanted = checked({**values, "entries": [dict(entry)]}, str(path)).entries[0]
    same = [] if is_new else [one for one in checked(values, str(path)).entries if name_of(one) == name_of(wanted)]
    if same and (same[0].env, same[0].arguments, same[0].data) != (wanted.env, wanted.arguments, wanted.data):
        raise UsageError(
            f"{path} has an entry {name_of(wanted)!r} with another environment or other arguments; give the new one a "
            "name of its own: --name NAME"
        )
    if not same:
        text = _with_entry(text, values, entry, path)
        path.write_text(text, encoding="utf-8")
    pins = {**({} if before is None else before.entries), name_of(wanted): _pins(tasks, places)}
    return _write(path, read_suite_file(path), pins, before)


def _now(entry: SuiteEntry) -> Found:
    with closing(entry.factory()) as env:
        return find_pinned(env.tasks, entry.pins, entry.places)


def _pins(tasks: Sequence[Task], places: Mapping[str, str]) -> dict[str, str]:
    return {task.id: pin_of(task, places) for task in tasks}


def _write(path: Path, file: SuiteFile, pins: Mapping[str, Pins], before: PinFile | None) -> Pinned:
    """Write the pins of a suite, with its version raised in both files if its content has changed."""
    names = [name_of(part) for part in file.entries]
    pins = {name: pins[name] for name in names if pins.get(name)}
    if left := [name for name in names if name not in pins]:
        raise UsageError(f"{path}: the entry {left[0]!r} has no pinned task; pin some with: {_HOW}")
    content_hash = assemble(file, pins, path, {}).content_hash
    version = file.version
    if before is not None and before.content_hash != content_hash:
        version = max(version, before.version + 1)
    if version != file.version:
        path.write_text(_with_version(path, version), encoding="utf-8")
    PinFile(version, content_hash, pins).write(pin_file_of(path))
    was = None if before is None else before.version
    return Pinned(path, version, was, sum(map(len, pins.values())))


def _with_version(path: Path, version: int) -> str:
    text, replaced = _VERSION.subn(f"version: {version}", path.read_text(encoding="utf-8"), count=1)
    if not replaced:
        raise UsageError(f"{path}: cannot find the line of the version; write it as `version: {version}`")
    return text


def _beginning(path: Path) -> str:
    return f'name: {path.stem}\nversion: 1\ndescription: ""\nentries:\n'


def _with_entry(text: str, values: Mapping[str, Any], entry: Mapping[str, Any], path: Path) -> str:
    """Return the text of a suite's file with an entry appended, if the list of entries stands at its end."""
    item = yaml12.dump([dict(entry)])
    longer = text.rstrip("\n") + "\n" + "".join(f"  {line}\n" for line in item.splitlines())
    expected = [*(values.get("entries") or []), dict(entry)]
    try:
        after = yaml12.load(longer)
    except yaml.YAMLError:
        after = None
    if not isinstance(after, dict) or after.get("entries") != expected:
        raise UsageError(f"{path}: an entry can be added only if `entries:` is the last key, each `- ` indented by two")
    return longer
