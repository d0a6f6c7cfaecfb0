"""Formats a run for a policy: the output, the useful lines of a traceback, and the limit that ended the run."""

from __future__ import annotations

import re

from agentgym.tools.sandbox import Ended, Result

_MAX_FRAMES = 4
_HEAD_SHARE = 0.6
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line \d+')
_HEADER = "Traceback (most recent call last):"


def show_run(result: Result, max_bytes: int) -> str:
    """Return what a run printed, then its error, then why it was stopped; long texts lose their middle.

    Args:
        result: The run.
        max_bytes: Most bytes to show of the output, and of the error.
    """
    error = useful_lines(result.err).encode("utf-8", "replace")
    parts = [
        without_middle(result.stdout, result.cut[0], max_bytes),
        without_middle(error, result.cut[1], max_bytes),
        why_stopped(result),
    ]
    return "\n".join(part for part in parts if part) or "(no output)"


def useful_lines(error: str) -> str:
    """Return an error without the header of its traceback and without frames outside the user's code."""
    blocks: list[list[str]] = []
    frame: list[str] | None = None
    for line in error.rstrip("\n").split("\n"):
        match = _FRAME.match(line)
        if match:
            frame = [line[2:]] if _is_users(match["file"]) else []
            blocks.append(frame)
        elif line.startswith("    ") and frame is not None:
            if frame and not set(line.strip()) <= set("^~"):
                frame.append(line[2:])
        elif line != _HEADER:
            frame = None
            blocks.append([line])
    return "\n".join(line for block in _few_frames(blocks) for line in block)


def without_middle(data: bytes, missing: int, max_bytes: int) -> str:
    """Return output as text, with an exact note of how many bytes are left out of its middle.

    Args:
        data: The output, possibly without its middle.
        missing: Bytes that were already cut from the middle; a note in `data` marks the place.
        max_bytes: Most bytes to show.
    """
    data = data.rstrip(b"\n")
    if len(data) <= max_bytes:
        return data.decode("utf-8", "replace")
    head, note, tail = data.partition(b"\n[... %d bytes cut ...]\n" % missing) if missing else (data, b"", data)
    first = head[: int(max_bytes * _HEAD_SHARE)]
    last = tail[len(first) - max_bytes :]
    left_out = len(data) - len(note) + missing - len(first) - len(last)
    return f"{first.decode('utf-8', 'replace')}\n[... {left_out} bytes left out ...]\n{last.decode('utf-8', 'replace')}"


def why_stopped(result: Result) -> str:
    """Return how a run ended, unless it ended by itself or its error already says so."""
    if not result.message or (result.ended is Ended.EXITED and result.err):
        return ""
    return f"({result.message})"


def _is_users(file: str) -> bool:
    return (file.startswith("<") and not file.startswith("<frozen")) or "/lib/python" not in file


def _few_frames(blocks: list[list[str]]) -> list[list[str]]:
    """Return the blocks with only the last frames of each run of frames: recursion produces many."""
    shortened: list[list[str]] = []
    for block in blocks:
        shortened.append(block)
        frames = shortened[-_MAX_FRAMES - 1 :]
        if len(frames) > _MAX_FRAMES and all(frame and frame[0].startswith("File ") for frame in frames):
            del shortened[-_MAX_FRAMES - 1]
    return shortened
