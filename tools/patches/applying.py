"""Applies patches to an in-memory tree, completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.tools.patches.model import ADDED, CONTEXT, FilePatch, Hunk, HunkLine, PatchError
from agentgym.tools.patches.parsing import parse_patch

MAX_OFFSET = 200
"""Maximum distance in lines from a hunk's stated position to search for it."""


def apply_patch(tree: Mapping[str, bytes], text: str, *, fuzz: int = 0) -> dict[str, bytes]:
    """Return a new tree with the patch applied.

    A hunk is searched at its stated position, then nearby. Lines with CRLF endings match a hunk without them: lines
    that stay keep their endings, and new ones get that of the line before.

    Args:
        tree: Path to contents.
        text: The patch.
        fuzz: Context lines at either end of a hunk that need not match.

    Raises:
        PatchError: The patch is malformed or does not apply; the message names the hunk, the file and its actual text.
    """
    patches = parse_patch(text)
    state = _PatchedTree(tree, {patch.original for patch in patches if patch.is_rename})
    for patch in patches:
        _apply_file(state, patch, fuzz)
    result = state.result()
    for path in state.written:
        parents = path.split("/")[:-1]
        for size in range(1, len(parents) + 1):
            if (above := "/".join(parents[:size])) in result:
                raise PatchError(f"cannot write {path!r}: {above!r} is a file", path=path)
    return result


@dataclass
class _PatchedTree:
    before: Mapping[str, bytes]
    moving: set[str]
    """Paths that the patch moves away, before or after other files take their place."""
    written: dict[str, bytes] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def read(self, patch: FilePatch) -> bytes:
        """Return the content that a patch changes: the result of earlier file patches, or for moves the original."""
        path = patch.original
        moves = patch.copied or patch.is_rename
        if not moves and path in self.written:
            return self.written[path]
        if path not in self.before or (not moves and path in self.removed):
            raise PatchError(f"cannot change {path!r}: there is no such file", path=path)
        return self.before[path]

    def has(self, path: str) -> bool:
        return path in self.written or (path in self.before and path not in self.removed)

    def remove(self, path: str) -> None:
        self.written.pop(path, None)
        self.removed.add(path)

    def result(self) -> dict[str, bytes]:
        return {path: data for path, data in self.before.items() if path not in self.removed} | self.written


def _apply_file(state: _PatchedTree, patch: FilePatch, fuzz: int) -> None:
    # A plain diff of a new file may name it on both sides.
    creates = patch.old_path is None or (
        not state.has(patch.original) and bool(patch.hunks) and not any(hunk.old_lines for hunk in patch.hunks)
    )
    makes = creates or patch.is_rename or patch.copied
    if makes and state.has(patch.path) and (patch.path in state.written or patch.path not in state.moving):
        raise PatchError(f"cannot create {patch.path!r}: the file already exists", path=patch.path)
    before = b"" if creates else state.read(patch)
    after = _changed(before, patch, fuzz)
    if patch.new_path is None:
        if after:
            raise PatchError(f"the patch deletes {patch.path!r}, but not all of its lines", path=patch.path)
        state.remove(patch.path)
        return
    if patch.is_rename and patch.old_path is not None and patch.old_path not in state.written:
        state.remove(patch.old_path)
    state.removed.discard(patch.path)
    state.written[patch.path] = after


def _changed(before: bytes, patch: FilePatch, fuzz: int) -> bytes:
    if patch.binary is not None:
        return _binary(before, patch)
    lines = _split(before)
    with_lf = [_with_lf(line) for line in lines]
    result: list[bytes] = []
    cursor, drift = 0, 0
    for number, hunk in enumerate(patch.hunks, start=1):
        states_endings = any(text.endswith("\r\n") for text in (*hunk.old_lines, *hunk.new_lines))
        matched = lines if states_endings else with_lf
        place = _find(matched, hunk, cursor, drift, fuzz)
        if place is None:
            raise PatchError(_mismatch(patch, number, hunk, matched, cursor, drift), hunk.number, patch.path)
        result += lines[cursor : place.start]
        cursor = place.start
        for line in place.lines:
            if line.op == ADDED:
                text = line.text.encode("utf-8", "surrogateescape")
                result.append(text if states_endings else _ended_as_near(text, lines, cursor))
            elif line.op == CONTEXT:
                result.append(lines[cursor])
            cursor += line.op != ADDED
        drift = place.start - place.expected
    return b"".join(result + lines[cursor:])


def _binary(before: bytes, patch: FilePatch) -> bytes:
    change = patch.binary
    if change is None or change.new is None:
        raise PatchError(f"the patch of the binary file {patch.path!r} does not include its contents", path=patch.path)
    if change.old is not None and change.old != before:
        raise PatchError(
            f"the binary file {patch.path!r} differs from the one that the patch was made for", path=patch.path
        )
    return change.new


@dataclass(frozen=True)
class _Place:
    start: int
    """The position of the lines, from 0."""
    expected: int
    """The position that the hunk states, without the drift of earlier hunks."""
    lines: Sequence[HunkLine]


def _find(lines: list[bytes], hunk: Hunk, cursor: int, drift: int, fuzz: int) -> _Place | None:
    """Return the position of the old lines nearest to the stated one, after the earlier hunks."""
    for drop in range(fuzz + 1):
        skip, body = _without_ends(hunk.lines, drop)
        old = [line.text.encode("utf-8", "surrogateescape") for line in body if line.op != ADDED]
        base = (hunk.old_start - 1 if hunk.old_lines else hunk.old_start) + skip
        if not old:
            at = base + drift
            return _Place(at, base, body) if cursor <= at <= len(lines) else None
        for offset in range(MAX_OFFSET + 1):
            for at in (base + drift + offset, base + drift - offset):
                if at >= cursor and lines[at : at + len(old)] == old:
                    return _Place(at, base, body)
    return None


def _without_ends(lines: tuple[HunkLine, ...], drop: int) -> tuple[int, Sequence[HunkLine]]:
    """Drop up to `drop` context lines at either end; return the number dropped at the start, and the rest."""
    head, tail = 0, len(lines)
    while head < min(drop, len(lines)) and lines[head].op == CONTEXT:
        head += 1
    while tail > head and len(lines) - tail < drop and lines[tail - 1].op == CONTEXT:
        tail -= 1
    return head, lines[head:tail]


def _with_lf(line: bytes) -> bytes:
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def _ended_as_near(text: bytes, lines: list[bytes], at: int) -> bytes:
    """Return a new line with the ending of the line before its position, or of the first line at the top."""
    before = lines[max(0, at - 2) : at][::-1] or lines[:1]
    near = next((line for line in before if line.endswith(b"\n")), b"")  # the last line of a file may have no ending
    return text[:-1] + b"\r\n" if near.endswith(b"\r\n") and text.endswith(b"\n") else text


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def _mismatch(patch: FilePatch, number: int, hunk: Hunk, lines: list[bytes], cursor: int, drift: int) -> str:
    """Describe the first difference between the hunk and the file."""
    where = f"hunk {number} of {patch.path!r} does not apply"
    old = [text.encode("utf-8", "surrogateescape") for text in hunk.old_lines]
    start = max(0, hunk.old_start - 1 + drift if old else hunk.old_start)
    if not old:
        return f"{where}: it adds lines after line {hunk.old_start}, but the file has {len(lines)}"
    if start < cursor:
        return f"{where}: it begins at line {hunk.old_start}, inside the lines of an earlier hunk"
    new = [text.encode("utf-8", "surrogateescape") for text in hunk.new_lines]
    if new and new != old and lines[start : start + len(new)] == new:
        return f"{where}: its change is already present at line {start + 1}"
    at = next((at for at, text in enumerate(old, start=start) if lines[at : at + 1] != [text]), start)
    expected = old[at - start]
    if at >= len(lines):
        return f"{where}: expected line {at + 1} to be {_quoted(expected)}, but the file has {len(lines)} lines"
    hint = _hint(expected, lines[at])
    return f"{where}: expected line {at + 1} to be {_quoted(expected)}, found {_quoted(lines[at])}{hint}"


def _hint(expected: bytes, actual: bytes) -> str:
    if expected.rstrip(b"\r\n") == actual.rstrip(b"\r\n"):
        return " (only the line endings differ)"
    if expected.split() == actual.split():
        return " (only whitespace differs)"
    return ""


def _quoted(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 120 else f"{text[:117]}...")
