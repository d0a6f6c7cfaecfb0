"""The parts of a patch, as plain frozen data. Other modules parse, render and apply them."""

from __future__ import annotations

import base64
import hashlib
import string
import zlib
from dataclasses import dataclass, replace
from typing import NamedTuple

from agentgym.base.errors import UsageError

CONTEXT, ADDED, DELETED = " ", "+", "-"


class PatchError(UsageError):
    """A patch is malformed or does not apply; the message gives the location in the patch and in the file.

    Attributes:
        line: Line of the patch, from 1, if known.
        path: The file concerned, if known.
    """

    def __init__(self, message: str, line: int | None = None, path: str | None = None):
        super().__init__(f"patch line {line}: {message}" if line is not None else message)
        self.line = line
        self.path = path


class HunkLine(NamedTuple):
    """One line of a hunk."""

    op: str
    """`" "` (context), `"+"` (added) or `"-"` (deleted)."""
    text: str
    """The text including its newline, which only the last line of a file may lack."""


@dataclass(frozen=True)
class Hunk:
    """One run of changed lines with the context around it."""

    old_start: int
    """First line in the original file, from 1; without original lines, the line before (0 at the top)."""
    new_start: int
    lines: tuple[HunkLine, ...]
    section: str = ""
    """The text after the second `@@`."""
    number: int = 0
    """The hunk's first line in the patch."""

    @property
    def old_lines(self) -> tuple[str, ...]:
        """The hunk's lines in the original file."""
        return tuple(line.text for line in self.lines if line.op != ADDED)

    @property
    def new_lines(self) -> tuple[str, ...]:
        """The hunk's lines in the changed file."""
        return tuple(line.text for line in self.lines if line.op != DELETED)

    def reversed(self) -> Hunk:
        """Return the hunk that undoes this one."""
        swap = {ADDED: DELETED, DELETED: ADDED, CONTEXT: CONTEXT}
        lines = [HunkLine(swap[line.op], line.text) for line in self.lines]
        return replace(self, old_start=self.new_start, new_start=self.old_start, lines=tuple(_deleted_first(lines)))


@dataclass(frozen=True)
class BinaryChange:
    """A change of a binary file; `None` for contents that the patch does not include."""

    old: bytes | None = None
    new: bytes | None = None


@dataclass(frozen=True)
class FilePatch:
    """The change of one file."""

    old_path: str | None
    """Path before; `None` if the patch creates the file."""
    new_path: str | None
    """Path after; `None` if the patch deletes the file."""
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryChange | None = None
    copied: bool = False
    """Whether the file at `old_path` is kept (git's `copy from`)."""
    old_mode: str | None = None
    new_mode: str | None = None
    old_hash: str | None = None
    new_hash: str | None = None

    @property
    def path(self) -> str:
        """The path after the change, or before it if the file is deleted."""
        return self.new_path or self.old_path or ""

    @property
    def original(self) -> str:
        """The path before the change, or after it if the file is new."""
        return self.old_path or self.path

    @property
    def is_rename(self) -> bool:
        """Whether the file is renamed."""
        return self.old_path not in (None, self.new_path) and self.new_path is not None and not self.copied

    def reversed(self) -> FilePatch:
        """Return the patch that undoes this one. Undoing a copy deletes it, which requires its text."""
        if self.copied:
            raise PatchError(f"the copy {self.path!r} cannot be reversed: the patch does not include its text")
        return FilePatch(
            old_path=self.new_path,
            new_path=self.old_path,
            hunks=tuple(hunk.reversed() for hunk in self.hunks),
            binary=self.binary and BinaryChange(self.binary.new, self.binary.old),
            old_mode=self.new_mode,
            new_mode=self.old_mode,
            old_hash=self.new_hash,
            new_hash=self.old_hash,
        )


def _deleted_first(lines: list[HunkLine]) -> list[HunkLine]:
    """Move the deleted lines of each run of changes before the added ones, as diff tools do."""
    result: list[HunkLine] = []
    run: list[HunkLine] = []
    for line in [*lines, HunkLine(CONTEXT, "")]:
        if line.op != CONTEXT:
            run.append(line)
            continue
        result += [item for item in run if item.op == DELETED] + [item for item in run if item.op == ADDED]
        run = []
        result.append(line)
    return result[:-1]


MAX_BYTES = 64 * 2**20
"""Maximum size of binary contents in a patch."""
_LENGTHS = string.ascii_uppercase + string.ascii_lowercase
_ROW = 52


def is_binary(data: bytes) -> bool:
    """Return whether contents cannot be text in a patch: they contain a NUL or are not UTF-8."""
    if b"\0" in data:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def blob_hash(data: bytes | None) -> str:
    """Return git's hash of the contents; all zeros for a file that does not exist."""
    if data is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def encode_literal(data: bytes) -> str:
    """Return a `literal` block, including the empty line at its end."""
    packed = zlib.compress(data, 9)
    rows = [packed[start : start + _ROW] for start in range(0, len(packed), _ROW)]
    encoded = (_LENGTHS[len(row) - 1] + base64.b85encode(row, pad=True).decode() for row in rows)
    return f"literal {len(data)}\n" + "".join(f"{row}\n" for row in encoded) + "\n"


def decode_literal(size: int, rows: list[str], line: int) -> bytes:
    """Decode a `literal` block. Raises `PatchError` if it is corrupt or too large."""
    if size > MAX_BYTES:
        raise PatchError(f"binary contents of {size} bytes are over the limit of {MAX_BYTES}", line)
    packed = bytearray()
    for number, row in enumerate(rows, start=line):
        try:
            length = _LENGTHS.index(row[0]) + 1
            packed += base64.b85decode(row[1:])[:length]
        except ValueError as error:
            raise PatchError(f"not a row of binary contents: {row[:60]!r}", number) from error
    unpacker = zlib.decompressobj()
    try:
        # One byte more than announced, to detect contents that are too long.
        data = unpacker.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        raise PatchError(f"binary contents are corrupt: {error}", line) from error
    if len(data) != size or not (unpacker.eof or size == 0):
        raise PatchError(f"binary contents have {len(data)} bytes, not the announced {size}", line)
    return data
