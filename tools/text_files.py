"""Lets a policy view and change text files, with few tokens and errors that say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from agentgym.base.errors import ToolError

MAX_LINE_CHARS = 300
VIEWED_LINES = 200
_LOOKED_AT_LINES = 5_000
_SHOWN_OF_NEAREST = 8
_MOST_PLACES = 10


def viewed(path: str, text: str, start: int, end: int | None) -> str:
    """Return lines of a file with their numbers: up to `end`, or `VIEWED_LINES` of them. Raises `ToolError`."""
    lines = text.splitlines()
    if not lines:
        return "The file is empty."
    last = min(len(lines), start + VIEWED_LINES - 1 if end is None else end)
    if not 1 <= start <= len(lines) or last < start:
        raise ToolError(f"{path} has lines 1 to {len(lines)}; {start} to {end or 'the end'} is not among them.")
    more = f"\n({count_of(len(lines) - last, 'more line')} below)" if last < len(lines) else ""
    return numbered(lines[start - 1 : last], start) + more


def replaced(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Replace a part of a text that occurs exactly once; line endings may differ.

    Returns:
        The new text, and a message for the policy.

    Raises:
        ToolError: `old` is empty, equals `new`, or does not occur exactly once.
    """
    if not old:
        raise ToolError("`old` is empty. Give the text to replace.")
    if old == new:
        raise ToolError("`old` and `new` are the same: nothing would change.")
    if old not in text and "\r\n" in text:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise ToolError(f"`old` does not occur in {path}.{nearest(text, old)}")
    if count > 1:
        places = _line_numbers(text, old)
        raise ToolError(
            f"`old` occurs {count} times in {path} (at lines {places}); include more of the surrounding lines."
        )
    line = text[: text.index(old)].count("\n") + 1
    return text.replace(old, new, 1), f"Changed {path} at line {line}."


def numbered(lines: Sequence[str], first: int) -> str:
    """Return lines with their numbers."""
    return "\n".join(f"{number}\t{cut(line)}" for number, line in enumerate(lines, start=first))


def count_of(number: int, noun: str) -> str:
    """Return `1 line` or `3 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def nearest(text: str, missing: str) -> str:
    """Return a hint with the lines of a text that are most similar to `missing`, which does not occur in it."""
    lines, target = text.splitlines()[:_LOOKED_AT_LINES], missing.strip("\n").splitlines()[:_SHOWN_OF_NEAREST]
    if not lines or not any(line.strip() for line in target):
        return ""
    anchor = max(target, key=lambda line: len(line.strip()))
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(anchor.strip()[:MAX_LINE_CHARS])
    best, similarity = 0, 0.0
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:MAX_LINE_CHARS])
        if matcher.real_quick_ratio() > similarity and matcher.quick_ratio() > similarity:
            ratio = matcher.ratio()
            if ratio > similarity:
                best, similarity = index, ratio
    if similarity < 0.4:
        return " Nothing in the file is similar; view the file first."
    start = max(0, best - target.index(anchor))
    return f" The most similar lines are:\n{numbered(lines[start : start + len(target)], start + 1)}"


def cut(line: str) -> str:
    """Return a line cut at `MAX_LINE_CHARS`, with a note about the rest."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}… ({len(line) - MAX_LINE_CHARS} more characters)"


def _line_numbers(text: str, part: str) -> str:
    numbers, at = [], text.find(part)
    while at >= 0 and len(numbers) < _MOST_PLACES:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + 1)
    return ", ".join(numbers)
