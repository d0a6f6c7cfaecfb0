"""`Collection`: the trajectories of growing files and folders, with their annotations and metrics."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from math import isfinite
from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.base.json_lines import MAX_LINE, parse_line
from agentgym.core.messages import text_of
from agentgym.core.trajectory import Trajectory
from agentgym.eval.results.annotations import Annotations
from agentgym.eval.results.entry import Entry
from agentgym.eval.results.index import TrajectoryIndex

Row = dict[str, Any]
"""A row as JSON data. Its `key` identifies the trajectory in URLs; attempts at one task share the number `group`."""

_FILTERS: dict[str, Callable[[Row], Iterable[Any]]] = {
    "env": lambda row: [row["env"]],
    "policy": lambda row: [row["policy"]],
    "split": lambda row: [row["split"]],
    "difficulty": lambda row: [row["difficulty"]],
    "tag": lambda row: row["tags"],
    "ending": lambda row: [row["reason"]],
    "solved": lambda row: ["yes" if row["success"] else "failed" if row["failed"] else "no"],
    "step": lambda row: [] if row["step"] is None else [row["step"]],
    "file": lambda row: [row["file"]],
}
FILTERS = tuple(_FILTERS)
"""Filters of `matching`."""
_SORTABLE = (
    *("id", "env", "policy", "step", "difficulty", "success", "reason", "reward"),
    *("turns", "calls", "tool_errors", "input", "sampled", "cost", "seconds", "generation", "environment"),
)
"""Columns that `ordered` can sort by."""


def row_of(entry: Entry, key: str, file: str, group: int) -> Row:
    """Return the row of an entry.

    Args:
        entry: The entry.
        key: Identifies the trajectory in URLs.
        file: Displayed name of the file.
        group: Number of the group of attempts at its task.
    """
    return {
        "key": key,
        "file": file,
        "id": entry.id,
        "env": entry.env_id,
        "policy": entry.policy,
        "task": entry.task_id,
        "attempt": entry.attempt,
        "group": group,
        "step": entry.step,
        "split": entry.split,
        "difficulty": entry.difficulty,
        "tags": list(entry.tags),
        "reason": entry.reason,
        "ending": entry.ending,
        "success": entry.success,
        "failed": entry.failed,
        "reward": entry.reward,
        "turns": entry.turns,
        "input": entry.input_tokens,
        "sampled": entry.sampled_tokens,
        "cost": entry.usage.get("cost"),
        "calls": entry.counts.get("calls", 0),
        "tool_errors": entry.counts.get("tool_errors", 0),
        "format_errors": entry.counts.get("format_errors", 0),
        "seconds": entry.seconds,
        "generation": entry.generation_s,
        "environment": entry.environment_s,
        "channels": entry.channels,
    }


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows by column, so that the names do not repeat in every row."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def matching(rows: Iterable[Row], filters: Mapping[str, str], keys: frozenset[str] | None = None) -> list[Row]:
    """Return the rows that match all filters.

    Args:
        rows: The rows.
        filters: Values by name (`FILTERS`), as text; empty and unknown ones are ignored.
        keys: Keys that match a full-text search, if any.
    """
    tests = [(_FILTERS[name], value) for name, value in filters.items() if value and name in FILTERS]
    return [
        row
        for row in rows
        if all(value in map(_text, values(row)) for values, value in tests) and (keys is None or row["key"] in keys)
    ]


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def ordered(rows: Sequence[Row], sort: str) -> Sequence[Row]:
    """Return rows sorted by a column, or descending by `-column`; rows without a value come last.

    Raises:
        UsageError: The column is unknown.
    """
    name = sort.removeprefix("-")
    if not name:
        return rows
    if name not in _SORTABLE:
        raise UsageError(f"rows cannot be sorted by {name!r}; choose from: {', '.join(_SORTABLE)}")
    valued = [row for row in rows if row[name] is not None]
    valued.sort(key=lambda row: row[name], reverse=sort.startswith("-"))
    return [*valued, *(row for row in rows if row[name] is None)]


METRICS = "metrics.jsonl"
"""Name of the file with the metrics of a training run."""
_SETTINGS = "config.yaml"
_HELD_OUT = {"before": "eval-before.jsonl", "after": "eval-after.jsonl"}
"""Files of the same folder: the settings of the run, and its episodes on held-out tasks."""
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
        for text in self.path.read_text(encoding="utf-8", errors="replace").split("\n"):
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
    def runs(self) -> dict[str, dict[str, Any]]:
        """Training runs by folder: their settings, and the displayed names of the files of their evaluations."""
        return {
            path.parent.resolve().name: {
                "settings": _settings(path.with_name(_SETTINGS)),
                **{when: self._name(path.with_name(name)) for when, name in _HELD_OUT.items()},
            }
            for path in self._metrics
        }

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


def _settings(path: Path) -> dict[str, str]:
    """Return the settings of a training run as text; empty if they cannot be read."""
    with suppress(OSError, AgentGymError):
        settings = yaml12.read(path, "settings")
        if isinstance(settings, dict):
            return {str(name): value if isinstance(value, str) else _as_json(value) for name, value in settings.items()}
    return {}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _holds_trajectories(path: Path) -> bool:
    """Whether the first line of a file looks like a trajectory."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        line = file.readline(MAX_LINE)
        return line.endswith(b"\n") and {"schema", "opening", "turns"} <= parse_line(line).keys()
    return False


_REMEMBERED = 8
_WORD = re.compile(rb"[a-z0-9]+")


class TextSearch:
    """Finds trajectories by text, ignoring case. Repeated searches for a text read only new trajectories."""

    def __init__(self, collection: Collection):
        self._collection = collection
        self._known: OrderedDict[str, tuple[set[str], set[str]]] = OrderedDict()  # read and matching keys by text
        self._lock = threading.Lock()

    def find(self, text: str) -> frozenset[str]:
        """Return the keys of the trajectories that contain a text."""
        needle = text.lower()
        with self._lock:
            read, hits = self._known.setdefault(needle, (set(), set()))
            self._known.move_to_end(needle)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            unread = [row["key"] for row in self._collection.rows if row["key"] not in read]
            for key, line in self._collection.raw_all(unread):
                read.add(key)
                if _contains(line, needle):
                    hits.add(key)
            return frozenset(hits)


def _contains(line: bytes, needle: str) -> bool:
    lowered = line.lower()
    # JSON does not escape ASCII letters and digits, so most lines need not be parsed.
    if not all(word in lowered for word in _WORD.findall(needle.encode("ascii", "replace"))):
        return False
    return any(needle in text.lower() for text in texts_of(parse_line(line)))


def texts_of(trajectory: Mapping[str, Any]) -> Iterator[str]:
    """Yield the searchable texts in the JSON data of a trajectory."""
    yield trajectory["id"]
    yield trajectory.get("error") or ""
    yield from _leaves(trajectory.get("details"))
    yield from (text for message in trajectory["opening"] for text in _in_message(message))
    for turn in trajectory.get("turns", ()):
        action = turn["action"]
        if action is not None:
            yield from [action] if isinstance(action, str) else _in_message(action)
        yield from (text for message in turn["observation"] for text in _in_message(message))


def _in_message(message: Mapping[str, Any]) -> Iterator[str]:
    yield text_of(message)
    yield from _leaves(message.get("tool_calls"))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
