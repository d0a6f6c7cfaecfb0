"""`Collection`: the trajectories of files and folders that may still be growing, and what else lies beside them."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from math import isfinite
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.records.json_lines import MAX_LINE, parse_line
from agentgym.results.annotations import Annotations
from agentgym.results.entry import Entry
from agentgym.results.index import TrajectoryIndex
from agentgym.trajectory import Trajectory
from agentgym.view.rows import Row, row_of

METRICS = "metrics.jsonl"
"""Name of the file with the metrics of a training run."""
_SELECTIONS = {"samples.jsonl": "eval-after.jsonl"}
"""Files that repeat some trajectories of another one beside them."""
_VERSIONS = 100
"""Versions of which it is remembered how many of their rows are still the same."""


@dataclass
class _File:
    path: Path
    name: str
    index: TrajectoryIndex
    notes: Annotations


@dataclass
class _Metrics:
    """The metrics of a run, read again when the file changes."""

    path: Path
    changed: tuple[int, int] = (0, 0)
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def refresh(self) -> None:
        state = self.path.stat()
        if (seen := (state.st_mtime_ns, state.st_size)) == self.changed:
            return
        self.changed, self.series = seen, {}
        for line in self._lines():
            step = line.pop("step", None)
            for name, value in line.items():
                if type(step) is int and type(value) in (int, float) and isfinite(value):
                    self.series.setdefault(name, []).append((step, value))

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that can be read. Python's reader takes NaN, which a loss may be."""
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                if isinstance(line := json.loads(text), dict):
                    yield line


class Collection:
    """Trajectories of several files, as rows and in full. Methods may be called from any thread.

    Args:
        places: Files of trajectories, or folders that hold some, at any depth.

    Raises:
        UsageError: A place does not exist or holds no trajectories, or a line is not a trajectory.
    """

    def __init__(self, places: Sequence[str | Path]):
        self._places = [Path(place) for place in places]
        self._lock = threading.RLock()
        self._files: dict[Path, _File] = {}
        self._metrics: dict[Path, _Metrics] = {}
        self._others: dict[Path, int] = {}  # files of something else, and their size when they were looked at
        self._notes = self._listed = 0
        self._by_key: dict[str, Row] = {}
        self._groups: list[list[Row]] = []
        self._unchanged: dict[str, int] = {}  # by version: how many of its first rows are still the same
        self._id = secrets.token_hex(4)  # versions of an earlier server are not those of this one
        self.rows: list[Row] = []
        """The latest try of each episode, in the order of the files."""
        for place in self._places:
            if not place.exists():
                raise UsageError(f"there is no {str(place)!r}")
        self.refresh()
        if not self._files and not self._metrics:
            named = ", ".join(repr(str(place)) for place in self._places)
            raise UsageError(f"there are no trajectories in {named}; `agentgym eval --out FILE` writes some")

    @property
    def title(self) -> str:
        """What is looked at, for people."""
        return ", ".join(place.resolve().name for place in self._places)

    @property
    def version(self) -> str:
        """Another text whenever something has changed."""
        metrics = sum(sum(map(len, one.series.values())) for one in self._metrics.values())
        return f"{self._id}.{self._listed}.{self._notes}.{metrics}"

    @property
    def metrics(self) -> dict[str, dict[str, list[tuple[int, float]]]]:
        """Metrics of training runs: maps the run's folder to series of (step, value), by name."""
        return {path.parent.resolve().name: one.series for path, one in self._metrics.items() if one.series}

    def refresh(self) -> bool:
        """Look for what was written since; return whether there is anything new."""
        with self._lock:
            before = self.version
            grown = self._find_files()
            for file in self._files.values():
                had = len(file.index.entries)
                grown |= file.index.refresh() > 0 or len(file.index.entries) != had
                self._notes += file.notes.refresh()
            for one in self._metrics.values():
                one.refresh()
            if grown:
                self._list()
            return self.version != before

    def since(self, version: str) -> tuple[str, int, list[Row]]:
        """Return the version now, how many of the first rows are as they were in another one, and those that follow.

        Of a version that is not remembered, no rows are the same.
        """
        with self._lock:
            start = self._unchanged.get(version, 0)
            self._unchanged[self.version] = len(self.rows)
            return self.version, start, self.rows[start:]

    def row(self, key: str) -> Row:
        """Return the row of a trajectory. Raises `UsageError` if there is none."""
        if key not in self._by_key:
            raise UsageError(f"there is no trajectory {key!r} here")
        return self._by_key[key]

    def group(self, row: Row) -> list[Row]:
        """Return the rows of all attempts at the same task, by number."""
        return self._groups[row["group"]]

    def groups(self) -> list[list[Row]]:
        """Return the rows by group, in the order of the first of each."""
        return self._groups

    def entry(self, key: str) -> Entry:
        """Return what the index knows of a trajectory. Raises `UsageError` if there is none."""
        with self._lock:
            file, position = self._locate(key)
            return file.index.entries[position]

    def read(self, key: str) -> Trajectory:
        """Return a trajectory in full. Raises `UsageError` if its file was changed since."""
        with self._lock:
            file, position = self._locate(key)
            return file.index.read(position)

    def raw_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield keys, each with the JSON of its trajectory; files are opened once for keys that follow each other."""
        for _, some in groupby(keys, lambda key: key.partition(".")[0]):
            with self._lock:
                places = {key: self._locate(key) for key in some}
                entries = [file.index.entries[position] for file, position in places.values()]
                index = next(file.index for file, _ in places.values())
            yield from zip(places, index.raw_all(entries), strict=True)

    def notes(self, key: str) -> dict[str, dict[str, Any]]:
        """Return what is known about a trajectory besides, by kind."""
        with self._lock:
            file, position = self._locate(key)
            return file.notes.of(*file.index.entries[position].key)

    def _locate(self, key: str) -> tuple[_File, int]:
        self.row(key)
        number, _, position = key.partition(".")
        return list(self._files.values())[int(number)], int(position)

    def _find_files(self) -> bool:
        """Open the files that are new. Those that are known keep their numbers, which are part of addresses."""
        found = False
        for path, given in self._candidates():
            if path.name == METRICS and not given:
                self._metrics.setdefault(path, _Metrics(path))
            elif path not in self._files and (given or self._is_ours(path)):
                self._files[path] = _File(path, self._name(path), TrajectoryIndex.open(path), Annotations(path))
                found = True
        return found

    def _is_ours(self, path: Path) -> bool:
        """Whether a file holds trajectories; one that does not is looked at again only once it has changed."""
        size = path.stat().st_size
        if self._others.get(path) == size:
            return False
        self._others[path] = size
        return _holds_trajectories(path)

    def _candidates(self) -> Iterator[tuple[Path, bool]]:
        """Yield files, and whether the user named them."""
        for place in self._places:
            if not place.is_dir():
                yield place, True
                continue
            for path in sorted(place.rglob("*.jsonl")):
                whole = _SELECTIONS.get(path.name)
                if whole is None or not path.with_name(whole).is_file():
                    yield path, False

    def _name(self, path: Path) -> str:
        folders = [place for place in self._places if place.is_dir() and path.is_relative_to(place)]
        return str(path.relative_to(folders[0])) if folders else path.name

    def _list(self) -> None:
        rows: list[Row] = []
        numbers: dict[tuple[Any, ...], int] = {}
        groups: dict[int, list[Row]] = {}
        for number, file in enumerate(self._files.values()):
            for at in file.index.latest():
                entry = file.index.entries[at]
                task = file.name, entry.env_id, entry.arguments, entry.policy, entry.task_id, entry.step
                row = row_of(entry, f"{number}.{at}", file.name, numbers.setdefault(task, len(numbers)))
                groups.setdefault(row["group"], []).append(row)
                rows.append(row)
        for group in groups.values():
            group.sort(key=lambda row: row["attempt"])
        self._listed += 1
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.rows, rows, strict=False)))
        latest = list(self._unchanged.items())[-_VERSIONS:]
        self._unchanged = {version: min(count, same) for version, count in latest}
        self.rows, self._groups, self._by_key = rows, list(groups.values()), {row["key"]: row for row in rows}


def _holds_trajectories(path: Path) -> bool:
    """Whether the first line of a file is a trajectory, or a part of one."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        line = file.readline(MAX_LINE)
        return line.endswith(b"\n") and {"schema", "opening", "turns"} <= parse_line(line).keys()
    return False
