"""How files, runs and mistakes look to a policy: few tokens, and nothing that varies between runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from agentgym.tools.sandbox import Ended, Result

MAX_LINE_CHARS = 300
_LOOKED_AT_LINES = 5_000
_SHOWN_OF_NEAREST = 8
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_DURATION = re.compile(r" in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?")
_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]{6,}")
_TEMPORARY = re.compile(r"/pytest-of-[^/\s]+/pytest-\d+")
_LIMITS = {
    Ended.TIMEOUT: "It took too long and was stopped.",
    Ended.CPU: "It used too much CPU time and was stopped.",
    Ended.MEMORY: "It used too much memory and was stopped.",
    Ended.PROCESSES: "It started too many processes and was stopped.",
    Ended.OUTPUT: "It printed too much and was stopped.",
    Ended.FILE_SIZE: "It wrote too large a file and was stopped.",
    Ended.DISK: "It filled the disk and was stopped.",
    Ended.FILES: "It created too many files and was stopped.",
}


def numbered(lines: Sequence[str], first: int) -> str:
    """Return lines with their numbers."""
    return "\n".join(f"{number}\t{_cut(line)}" for number, line in enumerate(lines, start=first))


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


def show_run(result: Result) -> str:
    """Return what a command printed and how it ended."""
    printed = "\n".join(part for part in (result.out.rstrip(), result.err.rstrip()) if part)
    return "\n".join(part for part in (steady(printed), _ending(result)) if part)


def show_tests(result: Result) -> str:
    """Return what pytest printed, without durations."""
    return show_run(result) or "No output."


def steady(text: str) -> str:
    """Return printed text without control sequences and without parts that vary between runs."""
    text = _ESCAPES.sub("", text).replace("\0", "\\0")
    text = _TEMPORARY.sub("/pytest", _ADDRESS.sub("…", _DURATION.sub("", text)))
    return "\n".join(_cut(line) for line in text.replace("\r\n", "\n").split("\n"))


def _ending(result: Result) -> str:
    if result.ended is Ended.EXITED:
        return "" if result.exit_code == 0 else f"(exit code {result.exit_code})"
    if result.ended is Ended.SIGNALED:
        return f"(killed by signal {result.signal})"
    return f"({_LIMITS.get(result.ended, 'It was stopped.')})"


def _cut(line: str) -> str:
    return (
        line
        if len(line) <= MAX_LINE_CHARS
        else f"{line[:MAX_LINE_CHARS]}… ({len(line) - MAX_LINE_CHARS} more characters)"
    )
