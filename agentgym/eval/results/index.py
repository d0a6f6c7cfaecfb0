"""`TrajectoryIndex`: the position and the short facts of each trajectory of a file, so that it is parsed only once.

The index of a large file is stored next to it (`eval.jsonl.index`) and grows with it. A stale index is rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, overload

from agentgym.base.errors import UsageError
from agentgym.base.json_lines import BOM, MAX_LINE, is_whole, parse_line
from agentgym.base.output_files import first_bytes
from agentgym.core.trajectory import Trajectory, write_jsonl
from agentgym.eval.results.entry import Entry, entry_of

SCHEMA_VERSION = 3
_BEGINNING = b'{"schema": '
WORTH_KEEPING = 2**20
"""Size in bytes of the smallest file whose index is stored; smaller files are quick to read again."""
_START = 65_536
"""Bytes of the first line that identify a file."""
_BATCH = 1000
"""Entries to write at a time."""


class TrajectoryIndex:
    """The trajectories of a JSONL file that may still be growing.

    Several processes may use the index of one file at once. If it cannot be written, it stays in memory.

    Args:
        path: The file; it need not exist yet.
        keep_from: Size in bytes of the smallest file whose index is stored next to it.

    Raises:
        UsageError: A line is not a trajectory; the message names its place.
    """

    def __init__(self, path: Path, *, keep_from: int = WORTH_KEEPING):
        self.path = path
        self.entries: list[Entry] = []
        """One for each line, in the order of the file."""
        self._file: Path | None = path.with_name(f"{path.name}.index")
        self._keep_from = keep_from
        self._start, self._end, self._cut_off = "", 0, False
        self._whole = True  # whether the stored index holds all entries but the last `_unsaved` ones
        self._unsaved = 0
        self._load()
        self.refresh()

    @classmethod
    def open(cls, path: str | Path, *, keep_from: int = WORTH_KEEPING) -> TrajectoryIndex:
        """Open the index of a file and bring it up to date."""
        return cls(Path(path), keep_from=keep_from)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def is_cut_off(self) -> bool:
        """Whether the file ended in the middle of a line when it was last read."""
        return self._cut_off

    def refresh(self) -> int:
        """Add the trajectories appended since, and return their number. An unfinished last line is left for later."""
        if not self.path.is_file():
            self._restart("")
            return 0
        with self._opened() as file:
            if self._end == 0 or not self._still_belongs(file):
                self._restart(_start_of(file))
            before = len(self.entries)
            for entry in self._read(file):
                self._note(entry)
        self.save()
        return len(self.entries) - before

    def add(self, trajectory: Trajectory) -> Entry:
        """Append a trajectory to the file, and return its entry. The caller must hold the file's lock.

        Raises:
            UsageError: The file cannot be written.
        """
        offset, length = write_jsonl(self.path, [trajectory], append=True)
        if offset != self._end or not offset:  # the first line, or one after an unfinished line
            self.refresh()
            return self.entries[-1]
        entry = entry_of(trajectory, offset, length)
        self._end = offset + length
        self._note(entry)
        return entry

    def save(self) -> None:
        """Store the new entries now; otherwise they are stored in batches."""
        if self._unsaved:
            self._append(self._unsaved)
            self._unsaved = 0

    def latest(self) -> list[int]:
        """Return the positions of the entries in order; of several tries of an episode, the last one."""
        return sorted({entry.key: position for position, entry in enumerate(self.entries)}.values())

    def read(self, position: int) -> Trajectory:
        """Return the trajectory of entry number `position`.

        Raises:
            UsageError: The file has changed since it was indexed.
        """
        with self._opened() as file:
            return self._trajectory_at(file, self.entries[position])

    def raw_all(self, entries: Iterable[Entry]) -> Iterator[bytes]:
        """Yield the unparsed JSON of entries; the file is opened once."""
        with self._opened() as file:
            for entry in entries:
                yield _line_at(file, entry)

    def read_all(self, entries: Iterable[Entry]) -> Iterator[Trajectory]:
        """Yield the trajectories of entries; the file is opened once. Raises like `read`."""
        with self._opened() as file:
            for entry in entries:
                yield self._trajectory_at(file, entry)

    def __iter__(self) -> Iterator[Trajectory]:
        """Yield the trajectories."""
        return self.read_all(self.entries)

    def _trajectory_at(self, file: BinaryIO, entry: Entry) -> Trajectory:
        with suppress(ValueError, UsageError):
            trajectory = Trajectory.from_dict(parse_line(_line_at(file, entry)))
            if trajectory.id == entry.id:
                return trajectory
        raise UsageError(
            f"{str(self.path)!r} has changed: trajectory {entry.id!r} is no longer at byte {entry.offset}; "
            "open it again"
        )

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {str(self.path)!r}: {error.strerror or error}") from error

    def _read(self, file: BinaryIO) -> Iterator[Entry]:
        """Read the file from where the index ends."""
        file.seek(self._end)
        self._cut_off = False
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n") and not is_whole(line):
                self._cut_off = True
                return
            mark = BOM if self._end == 0 and line.startswith(BOM) else b""
            if line.removeprefix(mark).strip():
                trajectory = self._parsed(line.removeprefix(mark))
                yield entry_of(trajectory, self._end + len(mark), len(line) - len(mark))
            self._end += len(line)

    def _note(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._unsaved += 1
        if self._unsaved >= _BATCH:
            self.save()

    def _parsed(self, line: bytes) -> Trajectory:
        try:
            return Trajectory.from_dict(parse_line(line))
        except (ValueError, UsageError) as error:
            raise UsageError(f"{self.path}:{self._line_number()}: not a trajectory: {error}") from error

    def _line_number(self) -> int:
        """Return the number of the line where the index ends."""
        with self._opened() as file:
            return 1 + file.read(self._end).count(b"\n")

    def _still_belongs(self, file: BinaryIO) -> bool:
        """Whether the file is the indexed one, possibly longer."""
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
        self.entries, self._start, self._end, self._whole, self._unsaved = [], start, 0, False, 0

    def _append(self, count: int) -> None:
        """Store the last `count` entries, or all of them if the stored index is unusable."""
        if self._file is None or self._end < self._keep_from:
            self._whole = False
            return
        try:
            if self._whole:
                _write(self._file, [_lines(self.entries[-count:])], append=True)
            else:
                _write(self._file, self._whole_index(), append=False)
            self._whole = True
        except OSError:
            self._file = None  # a read-only folder or a full disk: the index stays in memory

    def _whole_index(self) -> Iterator[bytes]:
        yield json.dumps({"schema": SCHEMA_VERSION, "start": self._start}).encode() + b"\n"
        rest = iter(self.entries)
        while batch := list(islice(rest, _BATCH)):
            yield _lines(batch)

    def _load(self) -> None:
        """Load the stored index, as far as it is complete and in order."""
        self._whole = False
        if self._file is None or not self._file.is_file() or not self.path.is_file():
            return
        try:
            with self._file.open("rb") as file, self.path.open("rb") as indexed:
                header = json.loads(file.readline())
                if header["schema"] != SCHEMA_VERSION:
                    raise ValueError("an index of another release")
                self._start = header["start"]
                for line in file:
                    if not line.endswith(b"\n"):
                        raise ValueError("the last entry was cut off")
                    self._take(Entry.from_list(json.loads(line)), indexed)
            self._whole = True
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            if first_bytes(self._file, len(_BEGINNING)) not in (_BEGINNING, b""):
                self._file = None  # a file of somebody else

    def _take(self, entry: Entry, indexed: BinaryIO) -> None:
        if entry.offset < self._end:
            return  # another process has appended the same entry
        if gap := entry.offset - self._end:
            indexed.seek(self._end)
            if gap > _START or indexed.read(gap).removeprefix(BOM).strip():
                raise ValueError("entries are missing: two processes wrote the index at once")
        self.entries.append(entry)
        self._end = entry.offset + entry.length


class StoredTrajectories(Sequence[Trajectory]):
    """Trajectories of a file, read on access.

    Args:
        index: The file's index.
        entries: The entries of the trajectories, in order.
    """

    def __init__(self, index: TrajectoryIndex, entries: Sequence[Entry]):
        self._index, self._entries = index, entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Trajectory: ...

    @overload
    def __getitem__(self, at: slice) -> list[Trajectory]: ...

    def __getitem__(self, at: int | slice) -> Trajectory | list[Trajectory]:
        """Read one trajectory or several. Raises `UsageError` if the file has changed since it was indexed."""
        trajectories = list(self._index.read_all(self._entries[at] if isinstance(at, slice) else [self._entries[at]]))
        return trajectories if isinstance(at, slice) else trajectories[0]

    def __iter__(self) -> Iterator[Trajectory]:
        """Yield the trajectories."""
        return self._index.read_all(self._entries)


def _line_at(file: BinaryIO, entry: Entry) -> bytes:
    file.seek(entry.offset)
    return file.read(entry.length)


def _lines(entries: Iterable[Entry]) -> bytes:
    return "".join(f"{json.dumps(entry.to_list())}\n" for entry in entries).encode()


def _write(path: Path, parts: Iterable[bytes], *, append: bool) -> None:
    """Write each part with one call, so that processes do not mix their lines; replace a whole file atomically."""
    target = path if append else path.with_name(f"{path.name}.{os.getpid()}")
    with target.open("ab" if append else "wb", buffering=0) as file:
        for part in parts:
            file.write(part)
    if not append:
        target.replace(path)


def _start_of(file: BinaryIO) -> str:
    """Return a hash that identifies a file: that of its first line, or of the start of a long one."""
    file.seek(0)
    return hashlib.sha256(file.readline(_START)).hexdigest()[:16]
