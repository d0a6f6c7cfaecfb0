"""Compares two patches: SWE-RL's similarity, and the original lines that each one touches."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

from agentgym.tools.patches.differ import matching_blocks
from agentgym.tools.patches.model import ADDED, CONTEXT, DELETED, FilePatch, Hunk
from agentgym.tools.patches.parsing import parse_patch
from agentgym.tools.patches.rendering import render_hunk

_MAX_WORK = 20_000_000
"""Character comparisons after which two diffs are compared by lines: difflib can take cubic time."""


class Localisation(NamedTuple):
    """How well the locations that a patch changes agree with those of the gold patch."""

    files_f1: float
    lines_f1: float


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
    """Return the F1 of the files and of the original lines that two patches touch; 1 where both touch none.

    Raises:
        PatchError: A patch is not valid.
    """
    first, second = _places(predicted), _places(gold)
    files = _f1({path for path, _ in first}, {path for path, _ in second})
    return Localisation(files, _f1(first, second))


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
        old, new = first.splitlines(keepends=True), second.splitlines(keepends=True)
        same = sum(len(text) for start, _, size in matching_blocks(old, new) for text in old[start : start + size])
        return 2 * same / (len(first) + len(second))
