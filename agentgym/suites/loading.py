"""Reads suites: bundled ones by name, your own by path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentgym.choices import nearest
from agentgym.errors import UsageError
from agentgym.foreign.making import full_env_id
from agentgym.loading import load_named
from agentgym.rooms import SUITES
from agentgym.suites.file import SuiteFile, name_of, read_suite_file
from agentgym.suites.pins import Pins, pin_file_of, read_pins
from agentgym.suites.suite import Suite, entry_of

ENDINGS = (".yaml", ".yml")
"""How the names of suites' files end."""


def bundled_suites() -> tuple[str, ...]:
    """Return the names of the bundled suites."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def load_suite(name_or_path: str | Path, data: Mapping[str, str | Path] | None = None) -> Suite:
    """Read a suite and its pins. No environment is made and no task is generated.

    Args:
        name_or_path: Name of a bundled suite, or the path of a YAML file.
        data: Paths of the user's data, by the names that the suite asks for; entries without theirs are `skipped`.

    Raises:
        UsageError: There is no such suite, one of its files is malformed, it was changed after it had been pinned, or
            `data` names something that it does not ask for or that does not exist.
    """
    path = suite_path(name_or_path)
    file = read_suite_file(path)
    _check_environments(file, path)
    pinned = read_pins(pin_file_of(path))
    _check_same_entries(file, pinned.entries, path)
    suite = assemble(file, pinned.entries, path, checked_data(file, data or {}))
    if (suite.version, suite.content_hash) != (pinned.version, pinned.content_hash):
        raise UsageError(
            f"{path} was changed after version {pinned.version} had been pinned; pin it again, which raises its "
            f"version: agentgym tasks pin {path}"
        )
    return suite


def suite_path(name_or_path: str | Path) -> Path:
    """Return the path of a suite's YAML file. Raises `UsageError` if there is none."""
    path = Path(name_or_path).expanduser()
    if path.suffix not in ENDINGS:
        path = _folder() / f"{name_or_path}.yaml"
    if not path.is_file():
        names = bundled_suites()
        near = nearest(str(name_or_path), names)
        raise UsageError(
            f"there is no suite {str(name_or_path)!r}{near} Give a YAML file or one of: {', '.join(names)}"
        )
    return path


def is_suite(name: str) -> bool:
    """Whether `name` is the name of a bundled suite or looks like the path of a suite's file."""
    return name.endswith(ENDINGS) or name in bundled_suites()


def assemble(file: SuiteFile, pins: Mapping[str, Pins], path: Path, paths: Mapping[str, str]) -> Suite:
    """Return the suite that a file and pins describe.

    Args:
        file: The contents of the YAML file.
        pins: The pins by the names of entries; none for those that are not in it.
        path: The YAML file.
        paths: Paths of the user's data by name.
    """
    entries = tuple(entry_of(part, pins.get(name_of(part), {}), paths) for part in file.entries)
    return Suite(file.name, file.version, file.description, entries, path)


def _folder() -> Path:
    return load_named(SUITES, "a folder", lambda found: isinstance(found, Path))


def _check_environments(file: SuiteFile, path: Path) -> None:
    """Raise `UsageError` for an environment that is not registered. Classes are not imported."""
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
        raise UsageError(f"{pin_file_of(path)}: there is no entry {unknown[0]!r} in {path}; {advice}")


def checked_data(file: SuiteFile, data: Mapping[str, str | Path]) -> dict[str, str]:
    """Return the paths of the user's data by name. Raises `UsageError` for one not asked for or that does not exist."""
    wanted = {name for part in file.entries for name in part.data.values()}
    found: dict[str, str] = {}
    for name, path in data.items():
        if name not in wanted:
            asked = f"it asks for: {', '.join(sorted(wanted))}" if wanted else "it needs no data of yours"
            raise UsageError(f"the suite {file.name!r} does not ask for data {name!r}{nearest(name, wanted)} {asked}")
        place = Path(path).expanduser()
        if not place.exists():
            raise UsageError(f"data {name}: there is no file or folder {str(path)!r}")
        found[name] = str(place)
    return found
