"""Reads suites: bundled ones by name, your own by path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentgym.choices import nearest
from agentgym.errors import UsageError
from agentgym.loading import load_named
from agentgym.making import full_env_id
from agentgym.rooms import SUITES
from agentgym.suites.file import SuiteFile, name_of, read_suite_file
from agentgym.suites.pins import Pins, pin_file_of, read_pins
from agentgym.suites.suite import Suite, entry_of

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
