"""Parses unified diffs, git's and plain ones, strictly; every error gives the line in the patch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.tools.patches.model import (
    ADDED,
    CONTEXT,
    DELETED,
    BinaryChange,
    FilePatch,
    Hunk,
    HunkLine,
    PatchError,
    decode_literal,
)
from agentgym.tools.patches.paths import check_path, git_header_paths, header_path, unquote, without_prefixes

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: ?(.*))?$", re.DOTALL)
_BINARY_NOTE = re.compile(r"Binary files (.+) and (.+) differ$", re.DOTALL)
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d+))?$")
_HEADERS = ("diff --git ", "--- ", "+++ ", "@@ ")
_SPECIAL = {"120000": "a symbolic link", "160000": "a submodule"}


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the file patches of a unified diff, in order.

    Text before, between and after the file patches (mail headers, `Index:` lines) is skipped.

    Raises:
        PatchError: A header, hunk or path is malformed, or there is text but no file patch.
    """
    reader = _Reader(_lines(text))
    patches: list[FilePatch] = []
    while not reader.at_end:
        if reader.line.startswith("diff --git "):
            patches.append(_git_file(reader))
        elif reader.line.startswith("--- ") and reader.peek(1).startswith("+++ "):
            patches.append(_plain_file(reader))
        elif _HUNK.match(reader.line):
            raise PatchError("a hunk without '--- ' and '+++ ' lines before it", reader.number)
        else:
            _check_stray(reader, bool(patches) and bool(patches[-1].hunks))
            reader.advance()
    if not patches and text.strip():
        raise PatchError("no file patch found; a unified diff has '--- a/path', '+++ b/path' and '@@' lines", 1)
    return tuple(patches)


def _lines(text: str) -> list[str]:
    """Split at newlines only. If the headers end in CR, the whole patch was converted to CRLF; convert it back."""
    lines = text.split("\n")
    headers = [line for line in lines if line.startswith(_HEADERS)]
    if headers and all(line.endswith("\r") for line in headers):
        lines = [line.removesuffix("\r") for line in lines]
    return lines


class _Reader:
    """The lines of a patch, and the current position."""

    def __init__(self, lines: list[str]):
        self._lines = lines[:-1] if lines and not lines[-1] else lines
        self._at = 0
        self.after_hunk = False

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._lines)

    @property
    def line(self) -> str:
        return self.peek(0)

    @property
    def number(self) -> int:
        return self._at + 1

    def peek(self, ahead: int) -> str:
        return self._lines[self._at + ahead] if self._at + ahead < len(self._lines) else ""

    def advance(self) -> str:
        line = self.line
        self._at += 1
        self.after_hunk = False
        return line


@dataclass
class _Header:
    """The content of the lines from `diff --git` to the first hunk."""

    number: int
    values: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    hashes: tuple[str, str] | None = None
    paths: tuple[str | None, str | None] | None = None

    def build(self, hunks: tuple[Hunk, ...], binary: BinaryChange | None) -> FilePatch:
        for mode in self.modes.values():
            if mode in _SPECIAL:
                raise PatchError(f"{_SPECIAL[mode]} (mode {mode}) is not supported", self.number)
        old, new = self.paths or (None, None)
        path_keys = ("copy from", "copy to") if "copy from" in self.values else ("rename from", "rename to")
        if all(key in self.values for key in path_keys):
            old, new = (unquote(self.values[key], self.number)[0] for key in path_keys)
        elif self.paths is None:
            raise PatchError("cannot determine the path of this file patch; add '--- ' and '+++ ' lines", self.number)
        elif old and new and old != new:
            raise PatchError(f"the paths {old!r} and {new!r} differ, but no header renames the file", self.number)
        old = None if "new" in self.modes else old
        new = None if "deleted" in self.modes else new
        return _file_patch(self.number, old, new, hunks, binary, header=self)


def _git_file(reader: _Reader) -> FilePatch:
    header = _Header(reader.number)
    header.paths = git_header_paths(reader.advance().removeprefix("diff --git "), header.number)
    while not reader.at_end and _extended_header(reader, header):
        pass
    if reader.line.startswith("--- ") and reader.peek(1).startswith("+++ "):
        header.paths = _two_paths(reader)
        return header.build(_hunks(reader), None)
    if _BINARY_NOTE.match(reader.line):
        reader.advance()
        return header.build((), BinaryChange())
    if reader.line == "GIT binary patch":
        return header.build((), _binary(reader))
    return header.build((), None)


def _extended_header(reader: _Reader, header: _Header) -> bool:
    """Parse one line of git's extended header; return whether there was one."""
    line = reader.line
    for words in ("rename from", "rename to", "copy from", "copy to", "similarity index", "dissimilarity index"):
        if line.startswith(f"{words} "):
            header.values[words] = reader.advance()[len(words) + 1 :]
            return True
    for words, key in (("old mode", "before"), ("new mode", "after"), ("new file mode", "new")):
        if line.startswith(f"{words} "):
            header.modes[key] = reader.advance()[len(words) + 1 :].strip()
            return True
    if line.startswith("deleted file mode "):
        header.modes["deleted"] = reader.advance().removeprefix("deleted file mode ").strip()
        return True
    index = _INDEX.match(line)
    if index is not None:
        header.hashes = (index.group(1), index.group(2))
        if index.group(3):
            header.modes.setdefault("before", index.group(3))
            header.modes.setdefault("after", index.group(3))
        reader.advance()
    return index is not None


def _plain_file(reader: _Reader) -> FilePatch:
    number = reader.number
    old, new = _two_paths(reader)
    if old and new and old != new:
        # Backup names such as `x.py.orig` and `x.py`: plain diffs do not rename files.
        old = new
    return _file_patch(number, old, new, _hunks(reader), None)


def _two_paths(reader: _Reader) -> tuple[str | None, str | None]:
    number = reader.number
    old = header_path(reader.advance()[4:], number)
    new = header_path(reader.advance()[4:], number + 1)
    return without_prefixes(old, new)


def _file_patch(
    number: int,
    old: str | None,
    new: str | None,
    hunks: tuple[Hunk, ...],
    binary: BinaryChange | None,
    header: _Header | None = None,
) -> FilePatch:
    for path in {old, new} - {None}:
        check_path(path or "", number)
    if old is None and new is None:
        raise PatchError("both sides of the file patch are /dev/null", number)
    modes, hashes = (header.modes, header.hashes) if header else ({}, None)
    return FilePatch(
        old_path=old,
        new_path=new,
        hunks=hunks,
        binary=binary,
        copied=header is not None and "copy from" in header.values,
        old_mode=modes.get("deleted", modes.get("before")),
        new_mode=modes.get("new", modes.get("after")),
        old_hash=hashes and hashes[0],
        new_hash=hashes and hashes[1],
    )


def _hunks(reader: _Reader) -> tuple[Hunk, ...]:
    hunks: list[Hunk] = []
    while not reader.at_end:
        if reader.line.startswith("@@"):
            hunks.append(_hunk(reader))
        elif reader.line == "" and reader.peek(1).startswith("@@"):
            reader.advance()
        else:
            break
    if not hunks:
        raise PatchError("a file patch without a hunk ('@@ -start,count +start,count @@')", reader.number)
    reader.after_hunk = True
    return tuple(hunks)


def _hunk(reader: _Reader) -> Hunk:
    number = reader.number
    match = _HUNK.match(reader.advance())
    if match is None:
        raise PatchError("the hunk header must have the form '@@ -start,count +start,count @@'", number)
    old_left, new_left = (int(match.group(group) or 1) for group in (2, 4))
    counts = f"{old_left} old and {new_left} new lines"
    lines: list[HunkLine] = []
    while old_left > 0 or new_left > 0:
        # Editors strip the space of an empty context line; git accepts that too.
        line = reader.line if reader.line not in ("", "\r") else CONTEXT + reader.line
        if reader.at_end or line[0] not in (CONTEXT, ADDED, DELETED):
            missing = f"{old_left} old and {new_left} new lines are missing"
            raise PatchError(f"the hunk at line {number} announces {counts}, but {missing}", reader.number)
        old_left -= line[0] != ADDED
        new_left -= line[0] != DELETED
        if old_left < 0 or new_left < 0:
            raise PatchError(f"the hunk at line {number} has more than the announced {counts}", reader.number)
        reader.advance()
        lines.append(HunkLine(line[0], line[1:] + "\n"))
        if reader.line.startswith("\\"):
            reader.advance()
            lines[-1] = HunkLine(line[0], line[1:])
    section = match.group(5) or ""
    return Hunk(int(match.group(1)), int(match.group(3)), tuple(lines), section, number)


def _check_stray(reader: _Reader, after_file: bool) -> None:
    """Reject lines right after a hunk that look like part of it: its header counts too few."""
    line = reader.line
    if not (after_file and reader.after_hunk) or not line:
        return
    mail_end = line.rstrip() == "--"
    if line[0] in "+- " and line.strip() and not mail_end:
        raise PatchError(
            f"an extra line after the end of the hunk, whose header counts too few lines: {line[:60]!r}", reader.number
        )


def _binary(reader: _Reader) -> BinaryChange:
    reader.advance()
    new = _binary_side(reader)
    old = _binary_side(reader) if re.match(r"(?:literal|delta) \d+$", reader.line) else None
    return BinaryChange(old, new)


def _binary_side(reader: _Reader) -> bytes | None:
    """Parse one block; `None` for a delta, which does not include the whole contents."""
    number = reader.number
    match = re.match(r"(literal|delta) (\d{1,12})$", reader.advance())
    if match is None:
        raise PatchError("binary contents must start with 'literal SIZE' or 'delta SIZE'", number)
    rows: list[str] = []
    while not reader.at_end and reader.line:
        rows.append(reader.advance())
    reader.advance()
    return decode_literal(int(match.group(2)), rows, number + 1) if match.group(1) == "literal" else None
