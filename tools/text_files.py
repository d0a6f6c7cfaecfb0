"""Lets a policy view and change text files, with few tokens and errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from agentgym.base.errors import ToolError
from agentgym.tools.text_codec import decode_file, named_codec, split_lines, without_end

MAX_LINE_CHARS = 300
VIEWED_LINES = 200
_LOOKED_AT_LINES = 5_000
_SHOWN_OF_NEAREST = 8
_MOST_PLACES = 10


def decoded(path: str, data: bytes) -> tuple[str, str]:
    """Return the text of a file and its codec, for `encoded`. Raises `ToolError` for a binary file."""
    content = decode_file(data)
    if content is None:
        raise ToolError(f"{path} is not a text file.")
    return content


def encoded(path: str, text: str, codec: str | None = None) -> bytes:
    """Return the bytes of a file. Raises `ToolError` if they cannot represent the text.

    Args:
        path: The file, for messages.
        text: Its text.
        codec: Its codec; for a new file, `None`, the one that its coding line names, else UTF-8.
    """
    if codec is None:
        codec = named_codec(text[:1000].encode("utf-8", "replace")) or "utf-8"
    try:
        return text.encode(codec)
    except UnicodeEncodeError as error:
        wrong = text[error.start]
        if "\ud800" <= wrong <= "\udfff":
            raise ToolError("The text contains lone surrogates, which no file can hold.") from None
        raise ToolError(
            f"{path} is in {codec}, which has no {wrong!r}. Leave that character out, or write {wrong!a} in code."
        ) from None


def viewed(path: str, text: str, start: int, end: int | None) -> str:
    """Return lines of a file with their numbers: up to `end`, or `VIEWED_LINES` of them. Raises `ToolError`."""
    lines = split_lines(text)
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
    places = _occurrences(text, old)
    if not places:
        raise ToolError(f"`old` does not occur in {path}.{nearest(text, old)}")
    if len(places) > 1:
        numbers = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in places[:_MOST_PLACES])
        raise ToolError(
            f"`old` occurs {len(places)} times in {path} (at lines {numbers}); include more of the surrounding lines."
        )
    start, end = places[0]
    line = text.count("\n", 0, start) + 1
    new = _with_ends_of(text, start, end, new)
    return text[:start] + new + text[end:], f"Changed {path} at line {line}."


def inserted(path: str, text: str, line: int, new: str) -> tuple[str, str]:
    """Insert lines after a line; 0 is the top. They get the line ending of that line.

    Returns:
        The new text, and a message for the policy.

    Raises:
        ToolError: There is no such line.
    """
    lines = split_lines(text)
    if not 0 <= line <= len(lines):
        raise ToolError(f"{path} has {count_of(len(lines), 'line')}; `line` must be from 0 to {len(lines)}.")
    ending = _ending_near(lines, line)
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += ending
    new_lines = [without_end(part) + ending for part in split_lines(new) or ["\n"]]
    message = f"Inserted {count_of(len(new_lines), 'line')} into {path} after line {line}."
    return "".join([*lines[:line], *new_lines, *lines[line:]]), message


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """Return where `old` occurs, as start and end; only if it does not, in places with other line endings."""
    places, at = [], text.find(old)
    while at >= 0:
        places.append((at, at + len(old)))
        at = text.find(old, at + 1)
    if places:
        return places
    pattern = re.escape(old.replace("\r\n", "\n")).replace("\\\n", "\r?\n")
    return [match.span() for match in re.finditer(pattern, text)] if "\r\n" in text else []


def _with_ends_of(text: str, start: int, end: int, new: str) -> str:
    """Return the replacement of a part of a text; lines that stay keep their endings, and new ones get those nearby."""
    old_lines, new_lines = split_lines(text[start:end]), split_lines(new)
    if "\r\n" in new or "\r\n" not in text:
        return new
    head, most = 0, min(len(old_lines), len(new_lines))
    while head < most and _with_lf(old_lines[head]) == new_lines[head]:
        head += 1
    tail = 0
    while tail < most - head and _with_lf(old_lines[-1 - tail]) == new_lines[-1 - tail]:
        tail += 1
    ending = _ending_near(split_lines(text), text.count("\n", 0, start) + max(1, head))
    middle = [
        line.removesuffix("\n") + ending * line.endswith("\n") for line in new_lines[head : len(new_lines) - tail]
    ]
    return "".join([*old_lines[:head], *middle, *old_lines[len(old_lines) - tail :]])


def _with_lf(line: str) -> str:
    return f"{line[:-2]}\n" if line.endswith("\r\n") else line


def _ending_near(lines: Sequence[str], line: int) -> str:
    """Return the line ending at a line (its number), or else of the next one that has an ending."""
    near = next((text for text in [*lines[max(0, line - 1) :], *lines[::-1]] if text.endswith("\n")), "\n")
    return "\r\n" if near.endswith("\r\n") else "\n"


def numbered(lines: Sequence[str], first: int) -> str:
    """Return lines with their numbers."""
    return "\n".join(f"{number}\t{cut(without_end(line))}" for number, line in enumerate(lines, start=first))


def count_of(number: int, noun: str) -> str:
    """Return `1 line` or `3 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def nearest(text: str, missing: str) -> str:
    """Return a hint with the lines of a text that are most similar to `missing`, which does not occur in it."""
    lines, target = split_lines(text)[:_LOOKED_AT_LINES], split_lines(missing.strip("\n"))[:_SHOWN_OF_NEAREST]
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


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_DURATION = re.compile(r" in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?")
_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]{6,}")
_TEMPORARY = re.compile(r"/pytest-of-[^/\s]+/pytest-\d+")


def steady(text: str) -> str:
    """Return printed text without control sequences and without parts that vary between runs."""
    text = _ESCAPES.sub("", text).replace("\0", "\\0")
    text = _TEMPORARY.sub("/pytest", _ADDRESS.sub("…", _DURATION.sub("", text)))
    return "\n".join(cut(line) for line in text.replace("\r\n", "\n").split("\n"))
