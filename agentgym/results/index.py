"""`TrajectoryIndex`: where each trajectory of a file is, and its short facts, so that nobody parses the file twice.

The index of a large file lies beside it (`eval.jsonl.index`) and grows with it. One of another content is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, overload

from agentgym.errors import UsageError
from agentgym.records.json_lines import BOM, MAX_LINE, is_whole, parse_line
from agentgym.results.entry import Entry, entry_of
from agentgym.trajectory import Trajectory

SCHEMA_VERSION = 2
WORTH_KEEPING = 2**20
"""A smaller file is read again in less time than a file more beside it costs attention."""
_START = 65_536
"""Bytes of the first line that tell one file from another."""


class TrajectoryIndex:
    """The trajectories of a JSONL file that may still be growing.

    Several processes may use the index of one file at once. Where it cannot be written, it is kept in memory.

    Args:
        path: The file; it may be missing as yet.
        keep_from: Size of the file, in bytes, from which on the index is written beside it.

    Raises:
        UsageError: A line is not a trajectory; the message names its place.
    """

    def __init__(self, path: Path, *, keep_from: int = WORTH_KEEPING):
        self.path = path
        self.entries: list[Entry] = []
        """One for each line, in the order of the file."""
        self._kept: Path | None = path.with_name(f"{path.name}.index")
        self._keep_from = keep_from
        self._start, self._end = "", 0
        self._whole = True  # whether the index beside the file holds exactly the entries
        self._load()
        self.refresh()

    @classmethod
    def open(cls, path: str | Path, *, keep_from: int = WORTH_KEEPING) -> TrajectoryIndex:
        """Open the index of a file, after what was appended since is added to it."""
        return cls(Path(path), keep_from=keep_from)

    def __len__(self) -> int:
        return len(self.entries)

    def refresh(self) -> int:
        """Add the trajectories that were appended since, and return their number. A line that is cut off waits."""
        if not self.path.is_file():
            self._restart("")
            return 0
        with self._opened() as file:
            if self._end == 0 or not self._still_belongs(file):
                self._restart(_start_of(file))
            added = list(self._read(file))
        if added:
            self.entries += added
            self._append(added)
        return len(added)

    def latest(self) -> dict[tuple[str, int | None], Entry]:
        """Return the entries by `Entry.key`. Of several tries of an episode, the last one counts."""
        return {entry.key: entry for entry in self.entries}

    def raw(self, position: int) -> bytes:
        """Return the JSON of entry number `position`, without parsing it."""
        entry = self.entries[position]
        with self._opened() as file:
            file.seek(entry.offset)
            return file.read(entry.length)

    def read(self, position: int) -> Trajectory:
        """Return the trajectory of entry number `position`.

        Raises:
            UsageError: The file was changed since it was indexed.
        """
        entry = self.entries[position]
        with suppress(ValueError, UsageError):
            found = Trajectory.from_dict(parse_line(self.raw(position)))
            if found.id == entry.id:
                return found
        raise UsageError(
            f"{str(self.path)!r} has changed: trajectory {entry.id!r} is no longer at byte {entry.offset}; "
            "open it again"
        )

    def __iter__(self) -> Iterator[Trajectory]:
        """Read the trajectories one after the other."""
        return map(self.read, range(len(self.entries)))

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {str(self.path)!r}: {error.strerror or error}") from error

    def _read(self, file: BinaryIO) -> Iterator[Entry]:
        """Read the file from where the index ends."""
        file.seek(self._end)
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n") and not is_whole(line):
                return
            mark = BOM if self._end == 0 and line.startswith(BOM) else b""
            if line.removeprefix(mark).strip():
                trajectory = self._parsed(line.removeprefix(mark))
                yield entry_of(trajectory, self._end + len(mark), len(line) - len(mark))
            self._end += len(line)

    def _parsed(self, line: bytes) -> Trajectory:
        try:
            return Trajectory.from_dict(parse_line(line))
        except (ValueError, UsageError) as error:
            raise UsageError(f"{self.path}:{self._line_number()}: not a trajectory: {error}") from error

    def _line_number(self) -> int:
        """Return the number of the line that begins where the index ends."""
        with self._opened() as file:
            return 1 + file.read(self._end).count(b"\n")

    def _still_belongs(self, file: BinaryIO) -> bool:
        """Whether the file is the one that was indexed, and only longer."""
        if _start_of(file) != self._start:
            return False
        if not self.entries:
            return True
        last = self.entries[-1]
        file.seek(last.offset)
        with suppress(ValueError):
            return parse_line(file.read(last.length)).get("id") == last.id
        return False

    def _restart(self, start: str) -> None:
        self.entries, self._start, self._end, self._whole = [], start, 0, False

    def _append(self, added: list[Entry]) -> None:
        """Write new entries beside the file; all of them, if what is there is of no use."""
        if self._kept is None or self._end < self._keep_from:
            self._whole = False
            return
        lines = [json.dumps(entry.to_list()) for entry in (added if self._whole else self.entries)]
        if not self._whole:
            lines.insert(0, json.dumps({"schema": SCHEMA_VERSION, "start": self._start}))
        try:
            _write(self._kept, "".join(f"{line}\n" for line in lines).encode(), append=self._whole)
            self._whole = True
        except OSError:
            self._kept = None  # a folder that cannot be written, or a full disk: the index stays in memory

    def _load(self) -> None:
        """Take over the index beside the file, as far as it is whole and in order."""
        if self._kept is None or not self._kept.is_file():
            self._whole = False
            return
        try:
            with self._kept.open("rb") as file:
                header = json.loads(file.readline())
                if header["schema"] != SCHEMA_VERSION:
                    raise ValueError("an index of another release")
                self._start = header["start"]
                for line in file:
                    self._take(Entry.from_list(json.loads(line)))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._whole = False

    def _take(self, entry: Entry) -> None:
        # Another process may have appended the same entries: each counts once.
        if entry.offset >= self._end:
            self.entries.append(entry)
            self._end = entry.offset + entry.length


class StoredTrajectories(Sequence[Trajectory]):
    """Trajectories of a file by their ids, each read when it is asked for.

    Args:
        index: The file's index.
        ids: The trajectories, in order; of several tries, the last one counts.

    Raises:
        UsageError: The file has no such trajectory.
    """

    def __init__(self, index: TrajectoryIndex, ids: Sequence[str]):
        places = {entry.id: position for position, entry in enumerate(index.entries)}
        if missing := [id for id in ids if id not in places]:
            raise UsageError(f"{str(index.path)!r} no longer holds {missing[0]!r}; was it changed meanwhile?")
        self._index, self._places = index, [places[id] for id in ids]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Trajectory: ...

    @overload
    def __getitem__(self, at: slice) -> list[Trajectory]: ...

    def __getitem__(self, at: int | slice) -> Trajectory | list[Trajectory]:
        """Read one trajectory, or several."""
        if isinstance(at, slice):
            return [self._index.read(position) for position in self._places[at]]
        return self._index.read(self._places[at])


def _write(path: Path, content: bytes, *, append: bool) -> None:
    """Write in one go, so that what several processes append is not mixed, and none sees half a new index."""
    target = path if append else path.with_name(f"{path.name}.{os.getpid()}")
    with target.open("ab" if append else "wb", buffering=0) as file:
        file.write(content)
    if not append:
        target.replace(path)


def _start_of(file: BinaryIO) -> str:
    """Return what tells a file from others: a hash of its first line, or of the beginning of a long one."""
    file.seek(0)
    return hashlib.sha256(file.readline(_START)).hexdigest()[:16]
