"""`Collection`: the trajectories of growing files and folders, with their annotations and metrics."""

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
"""Maps files that repeat trajectories to the original files in the same folder."""
_VERSIONS = 100
"""Number of versions whose unchanged rows are remembered."""


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
        if (stamp := (state.st_mtime_ns, state.st_size)) == self.changed:
            return
        self.changed, self.series = stamp, {}
        for line in self._lines():
            step = line.pop("step", None)
            for name, value in line.items():
                if type(step) is int and type(value) in (int, float) and isfinite(value):
                    self.series.setdefault(name, []).append((step, value))

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield the valid lines. Python's parser accepts NaN, which losses may contain."""
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                if isinstance(line := json.loads(text), dict):
                    yield line


class Collection:
    """Trajectories of several files, as rows and in full. Methods may be called from any thread.

    Args:
        places: Files of trajectories, or folders that contain some, at any depth.

    Raises:
        UsageError: A place does not exist or contains no trajectories, or a line is not a trajectory.
    """

    def __init__(self, places: Sequence[str | Path]):
        self._places = [Path(place) for place in places]
        self._lock = threading.RLock()
        self._files: dict[Path, _File] = {}
        self._metrics: dict[Path, _Metrics] = {}
        self._others: dict[Path, int] = {}  # files without trajectories, and their size at the last check
        self._notes = self._listed = 0
        self._by_key: dict[str, Row] = {}
        self._groups: list[list[Row]] = []
        self._unchanged: dict[str, int] = {}  # by version: how many of its first rows are unchanged
        self._id = secrets.token_hex(4)  # distinguishes versions from those of earlier servers
        self.rows: list[Row] = []
        """The latest try of each episode, in the order of the files."""
        for place in self._places:
            if not place.exists():
                raise UsageError(f"{str(place)!r} does not exist")
        self.refresh()
        if not self._files and not self._metrics:
            named = ", ".join(repr(str(place)) for place in self._places)
            raise UsageError(f"{named} contains no trajectories; `agentgym eval --out FILE` writes some")

    @property
    def title(self) -> str:
        """The names of the places."""
        return ", ".join(place.resolve().name for place in self._places)

    @property
    def version(self) -> str:
        """A text that changes whenever the collection does."""
        metrics = sum(sum(map(len, metrics.series.values())) for metrics in self._metrics.values())
        return f"{self._id}.{self._listed}.{self._notes}.{metrics}"

    @property
    def metrics(self) -> dict[str, dict[str, list[tuple[int, float]]]]:
        """Metrics of training runs: maps the run's folder to series of (step, value) by name."""
        return {path.parent.resolve().name: metrics.series for path, metrics in self._metrics.items() if metrics.series}

    def refresh(self) -> bool:
        """Read what was written since; return whether anything changed."""
        with self._lock:
            before = self.version
            grown = self._find_files()
            for file in self._files.values():
                count = len(file.index.entries)
                grown |= file.index.refresh() > 0 or len(file.index.entries) != count
                self._notes += file.notes.refresh()
            for metrics in self._metrics.values():
                metrics.refresh()
            if grown:
                self._list()
            return self.version != before

    def since(self, version: str) -> tuple[str, int, list[Row]]:
        """Return the current version, how many of the first rows are unchanged since `version`, and the other rows.

        For an unknown version, all rows count as changed.
        """
        with self._lock:
            start = self._unchanged.get(version, 0)
            self._unchanged[self.version] = len(self.rows)
            return self.version, start, self.rows[start:]

    def row(self, key: str) -> Row:
        """Return the row of a trajectory. Raises `UsageError` if the key is unknown."""
        if key not in self._by_key:
            raise UsageError(f"unknown trajectory {key!r}")
        return self._by_key[key]

    def group(self, row: Row) -> list[Row]:
        """Return the rows of all attempts at the same task, by number."""
        return self._groups[row["group"]]

    def groups(self) -> list[list[Row]]:
        """Return the groups of rows, in the order of their first rows."""
        return self._groups

    def entry(self, key: str) -> Entry:
        """Return the index entry of a trajectory. Raises `UsageError` if the key is unknown."""
        with self._lock:
            file, position = self._locate(key)
            return file.index.entries[position]

    def read(self, key: str) -> Trajectory:
        """Return a whole trajectory. Raises `UsageError` if its file has changed."""
        with self._lock:
            file, position = self._locate(key)
            return file.index.read(position)

    def raw_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield keys with the JSON of their trajectories; a file is opened once for consecutive keys."""
        for _, members in groupby(keys, lambda key: key.partition(".")[0]):
            with self._lock:
                places = {key: self._locate(key) for key in members}
                entries = [file.index.entries[position] for file, position in places.values()]
                index = next(file.index for file, _ in places.values())
            yield from zip(places, index.raw_all(entries), strict=True)

    def notes(self, key: str) -> dict[str, dict[str, Any]]:
        """Return the annotations of a trajectory by kind."""
        with self._lock:
            file, position = self._locate(key)
            return file.notes.of(*file.index.entries[position].key)

    def _locate(self, key: str) -> tuple[_File, int]:
        self.row(key)
        number, _, position = key.partition(".")
        return list(self._files.values())[int(number)], int(position)

    def _find_files(self) -> bool:
        """Open new files; return whether there are any. Known files keep their numbers, which are part of URLs."""
        is_new = False
        for path, is_named in self._candidates():
            if path.name == METRICS and not is_named:
                self._metrics.setdefault(path, _Metrics(path))
            elif path not in self._files and (is_named or self._is_ours(path)):
                self._files[path] = _File(path, self._name(path), TrajectoryIndex.open(path), Annotations(path))
                is_new = True
        return is_new

    def _is_ours(self, path: Path) -> bool:
        """Whether a file holds trajectories. If not, it is checked again only after its size has changed."""
        size = path.stat().st_size
        if self._others.get(path) == size:
            return False
        self._others[path] = size
        return _holds_trajectories(path)

    def _candidates(self) -> Iterator[tuple[Path, bool]]:
        """Yield files, and whether the user named each."""
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
    """Whether the first line of a file looks like a trajectory."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        line = file.readline(MAX_LINE)
        return line.endswith(b"\n") and {"schema", "opening", "turns"} <= parse_line(line).keys()
    return False
