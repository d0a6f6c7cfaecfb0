"""Compares two patches: SWE-RL's similarity, and the original lines that each one touches."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

from agentgym.tools.patches.model import (
    ADDED,
    CONTEXT,
    DELETED,
    BinaryChange,
    FilePatch,
    Hunk,
    HunkLine,
    blob_hash,
    is_binary,
)
from agentgym.tools.patches.parsing import parse_patch
from agentgym.tools.patches.paths import check_path
from agentgym.tools.patches.rendering import render_hunk, render_patch
from agentgym.tools.text_codec import split_lines

_MAX_EDITS = 256
"""Maximum edits for Myers' algorithm between two anchors; beyond it, the whole range is replaced."""

Match = tuple[int, int, int]
"""An equal range: its start on both sides, and its number of lines."""


def diff_trees(
    before: Mapping[str, bytes], after: Mapping[str, bytes], *, context: int = 3, binary: bool = True
) -> str:
    """Return the git-style patch that turns `before` into `after`; empty if they are equal.

    Args:
        before: Path to contents.
        after: Path to contents.
        context: Unchanged lines around each change.
        binary: Include contents that are not UTF-8 text, so that the patch applies; otherwise only mention them.
    """
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    return render_patch(_file(check_path(path), before.get(path), after.get(path), context, binary) for path in changed)


def matching_blocks(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Return the equal ranges of two sequences, in order on both sides, in bounded time."""
    matches: list[Match] = []
    old_at, new_at = 0, 0
    for old_end, new_end in [*_anchors(old, new), (len(old), len(new))]:
        matches += _gap(old, new, (old_at, old_end), (new_at, new_end))
        if old_end < len(old):
            matches.append((old_end, new_end, 1))
        old_at, new_at = old_end + 1, new_end + 1
    return _joined(matches)


def _file(path: str, old: bytes | None, new: bytes | None, context: int, binary: bool) -> FilePatch:
    hashes = (blob_hash(old), blob_hash(new))
    paths = (None if old is None else path, None if new is None else path)
    if is_binary(old or b"") or is_binary(new or b""):
        change = BinaryChange(old or b"", new or b"") if binary else BinaryChange()
        return FilePatch(*paths, binary=change, old_hash=hashes[0], new_hash=hashes[1])
    old_lines, new_lines = (split_lines((data or b"").decode("utf-8")) for data in (old, new))
    hunks = tuple(_hunks(old_lines, new_lines, context))
    return FilePatch(*paths, hunks, old_hash=hashes[0][:10], new_hash=hashes[1][:10])


def _hunks(old: list[str], new: list[str], context: int) -> Iterator[Hunk]:
    edits = list(_edits(matching_blocks(old, new), len(old), len(new)))
    start = 0
    for end in range(1, len(edits) + 1):
        # Changes whose contexts touch share a hunk.
        if end < len(edits) and edits[end][0] - edits[end - 1][1] <= 2 * context:
            continue
        yield _hunk(old, new, edits[start:end], context)
        start = end


def _edits(blocks: list[Match], old_size: int, new_size: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the gaps between equal ranges, as (old start, old end, new start, new end)."""
    old_at, new_at = 0, 0
    for old_start, new_start, size in [*blocks, (old_size, new_size, 0)]:
        if old_start > old_at or new_start > new_at:
            yield old_at, old_start, new_at, new_start
        old_at, new_at = old_start + size, new_start + size


def _hunk(old: list[str], new: list[str], edits: list[tuple[int, int, int, int]], context: int) -> Hunk:
    first, last = edits[0], edits[-1]
    before = min(context, first[0])
    old_from, new_from = first[0] - before, first[2] - before
    lines: list[HunkLine] = []
    at = old_from
    for old_start, old_end, new_start, new_end in edits:
        lines += [HunkLine(CONTEXT, text) for text in old[at:old_start]]
        lines += [HunkLine(DELETED, text) for text in old[old_start:old_end]]
        lines += [HunkLine(ADDED, text) for text in new[new_start:new_end]]
        at = old_end
    lines += [HunkLine(CONTEXT, text) for text in old[at : last[1] + context]]
    old_count = sum(line.op != ADDED for line in lines)
    new_count = sum(line.op != DELETED for line in lines)
    return Hunk(old_from + (old_count > 0), new_from + (new_count > 0), tuple(lines))


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest run of line pairs, unique on both sides, that keeps the order of both."""
    once_old = {text for text, count in Counter(old).items() if count == 1}
    once_new = {text for text, count in Counter(new).items() if count == 1}
    where = {text: index for index, text in enumerate(new) if text in once_old and text in once_new}
    pairs = [(index, where[text]) for index, text in enumerate(old) if text in where]
    tails: list[int] = []
    tops: list[int] = []
    below: list[int] = []
    for number, (_, position) in enumerate(pairs):
        pile = bisect_left(tails, position)
        tails[pile : pile + 1] = [position]
        tops[pile : pile + 1] = [number]
        below.append(tops[pile - 1] if pile else -1)
    chain: list[tuple[int, int]] = []
    number = tops[-1] if tops else -1
    while number >= 0:
        chain.append(pairs[number])
        number = below[number]
    return chain[::-1]


def _gap(old: Sequence[str], new: Sequence[str], old_range: tuple[int, int], new_range: tuple[int, int]) -> list[Match]:
    """Match the lines between two anchors: the common prefix and suffix first, then the middle."""
    (old_from, old_to), (new_from, new_to) = old_range, new_range
    room = min(old_to - old_from, new_to - new_from)
    head = 0
    while head < room and old[old_from + head] == new[new_from + head]:
        head += 1
    tail = 0
    while tail < room - head and old[old_to - 1 - tail] == new[new_to - 1 - tail]:
        tail += 1
    middle = _myers(old[old_from + head : old_to - tail], new[new_from + head : new_to - tail])
    matches = [(old_from, new_from, head)] if head else []
    matches += [(old_from + head + old_at, new_from + head + new_at, 1) for old_at, new_at in middle]
    return matches + ([(old_to - tail, new_to - tail, tail)] if tail else [])


def _myers(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of equal lines of a shortest edit script; none if it has more than `_MAX_EDITS` edits."""
    if not old or not new:
        return []
    reach: dict[int, int] = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(old) + len(new), _MAX_EDITS) + 1):
        history.append(reach)
        reach = dict(reach)
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            old_at = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            new_at = old_at - diagonal
            while old_at < len(old) and new_at < len(new) and old[old_at] == new[new_at]:
                old_at, new_at = old_at + 1, new_at + 1
            reach[diagonal] = old_at
            if old_at >= len(old) and new_at >= len(new):
                return _walk_back(history, len(old), len(new))
    return []


def _walk_back(history: list[dict[int, int]], old_at: int, new_at: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        reach, diagonal = history[edits], old_at - new_at
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        previous = diagonal + 1 if down else diagonal - 1
        from_one = reach[previous] if edits else 0
        from_two = from_one - previous if edits else 0
        while old_at > from_one and new_at > from_two:
            old_at, new_at = old_at - 1, new_at - 1
            pairs.append((old_at, new_at))
        old_at, new_at = from_one, from_two
    return pairs[::-1]


def _joined(blocks: list[Match]) -> list[Match]:
    """Join adjacent equal ranges."""
    joined: list[Match] = []
    for old, new, size in blocks:
        if joined and joined[-1][0] + joined[-1][2] == old and joined[-1][1] + joined[-1][2] == new:
            joined[-1] = (joined[-1][0], joined[-1][1], joined[-1][2] + size)
        else:
            joined.append((old, new, size))
    return joined


NEAR_LINES = 10
_MAX_WORK = 20_000_000
"""Character comparisons after which two diffs are compared by lines: difflib can take cubic time."""


class Localisation(NamedTuple):
    """How well the locations that a patch changes agree with those of the gold patch."""

    files_f1: float
    lines_f1: float
    precision: float
    """Share of the original lines touched that are in the same file as a line that the gold patch touches, at most
    `NEAR_LINES` away from it. It is low for a patch that changes everything."""


def touched(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return, per original file, the first and last line that each hunk changes, without its context.

    An insertion touches the line before it (at the top: line 1). New files, moves and binary changes
    have no original lines; a new file is listed under its new path.
    """
    ranges: dict[str, tuple[tuple[int, int], ...]] = {}
    for patch in parse_patch(text):
        lines = [_changed_lines(patch, hunk) for hunk in patch.hunks]
        touched_ranges = tuple((min(numbers), max(numbers)) for numbers in lines if numbers)
        ranges[patch.original] = ranges.get(patch.original, ()) + touched_ranges
    return ranges


def similarity(predicted: str, gold: str) -> float:
    """Return SWE-RL's reward for a predicted patch, from 0 to 1.

    It is the mean, over all files in either patch, of the `difflib` ratio of the file's two diffs without headers; a
    file in only one patch counts 0. Two empty patches count 1. Both should have the same number of context lines.
    Diffs too long for `difflib` are compared by whole lines.

    Raises:
        PatchError: A patch is not valid.
    """
    first, second = _by_file(predicted), _by_file(gold)
    files = first.keys() | second.keys()
    if not files:
        return 1.0
    ratios = [_ratio(first[path], second[path]) for path in sorted(first.keys() & second.keys())]
    return sum(ratios) / len(files)


def localisation(predicted: str, gold: str) -> Localisation:
    """Return the F1 of the files and of the original lines that two patches touch, and the precision of these lines.

    All are 1 where both touch none.

    Raises:
        PatchError: A patch is not valid.
    """
    first, second = _places(predicted), _places(gold)
    files = _f1({path for path, _ in first}, {path for path, _ in second})
    near = sum(
        any((path, line + offset) in second for offset in range(-NEAR_LINES, NEAR_LINES + 1)) for path, line in first
    )
    precision = near / len(first) if first else float(not second)
    return Localisation(files, _f1(first, second), precision)


def _by_file(text: str) -> dict[str, str]:
    diffs: dict[str, str] = {}
    for patch in parse_patch(text):
        hunks = "".join(render_hunk(hunk, section=False) for hunk in patch.hunks)
        hunks = hunks.replace("\n\\ No newline at end of file\n", "\n")
        diffs[patch.path] = "\n".join(part for part in (diffs.get(patch.path), hunks.removesuffix("\n")) if part)
    return diffs


def _places(text: str) -> set[tuple[str, int]]:
    places: set[tuple[str, int]] = set()
    for patch in parse_patch(text):
        lines = set[int]().union(*(_changed_lines(patch, hunk) for hunk in patch.hunks))
        places |= {(patch.original, line) for line in lines or {0}}
    return places


def _changed_lines(patch: FilePatch, hunk: Hunk) -> set[int]:
    """Return the original lines that a hunk deletes or inserts after."""
    if patch.old_path is None:
        return set()
    numbers: set[int] = set()
    at = hunk.old_start if hunk.old_lines else hunk.old_start + 1
    after_deleted = False
    for line in hunk.lines:
        if line.op == DELETED:
            numbers.add(at)
        elif line.op == ADDED and not after_deleted:
            numbers.add(max(1, at - 1))
        after_deleted = line.op == DELETED or (after_deleted and line.op != CONTEXT)
        at += line.op != ADDED
    return numbers


def _f1(predicted: set[tuple[str, int]] | set[str], gold: set[tuple[str, int]] | set[str]) -> float:
    if not predicted and not gold:
        return 1.0
    return 2 * len(predicted & gold) / (len(predicted) + len(gold))


class _TooMuchWork(Exception):
    """The comparison by characters would take too long."""


class _BoundedMatcher(SequenceMatcher[str]):
    """Raises `_TooMuchWork` once it has compared `_MAX_WORK` pairs of characters."""

    def __init__(self, first: str, second: str):
        super().__init__(None, first, second, autojunk=False)
        occurrences = self.b2j  # pyright: ignore[reportAttributeAccessIssue]
        self._cost = [0, *accumulate(len(occurrences.get(letter, ())) + 1 for letter in first)]
        self._budget = _MAX_WORK

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None):
        """Find the longest match as `difflib` does, within the bound."""
        self._budget -= self._cost[len(self._cost) - 1 if ahi is None else ahi] - self._cost[alo]
        if self._budget < 0:
            raise _TooMuchWork
        return super().find_longest_match(alo, ahi, blo, bhi)


def _ratio(first: str, second: str) -> float:
    if first == second:
        return 1.0
    try:
        return _BoundedMatcher(first, second).ratio()
    except _TooMuchWork:
        old, new = split_lines(first), split_lines(second)
        same = sum(len(text) for start, _, size in matching_blocks(old, new) for text in old[start : start + size])
        return 2 * same / (len(first) + len(second))
