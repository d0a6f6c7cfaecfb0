"""Creates the patch between two trees.

Lines are matched by the lines that are unique on both sides and, between those, by Myers' algorithm with a bound on
its work: trees come from agents, and a diff of any two files must end soon.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from agentgym.tools.patches.binary import blob_hash, is_binary
from agentgym.tools.patches.model import ADDED, CONTEXT, DELETED, BinaryChange, FilePatch, Hunk, HunkLine
from agentgym.tools.patches.paths import check_path
from agentgym.tools.patches.rendering import render_patch

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
    hunks = tuple(_hunks(_text_lines(old or b""), _text_lines(new or b""), context))
    return FilePatch(*paths, hunks, old_hash=hashes[0][:10], new_hash=hashes[1][:10])


def _text_lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


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
