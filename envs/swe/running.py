"""The commands that an agent's tools run in its sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import ToolError

MAX_COMMAND_BYTES = 100_000
"""Longer commands cannot be passed to a program on every system."""


def command_of(command: str) -> list[str]:
    """Return the program that runs a shell command. Raises `ToolError` if no program can be given it."""
    if not command.strip():
        raise ToolError("The command is empty.")
    _check(command, "command")
    return ["bash", "-c", command]


def pytest_arguments(paths: Sequence[str]) -> list[str]:
    """Return the arguments with which pytest runs tests as they are graded. Raises `ToolError` for what is no path."""
    for path in paths:
        _check(path, "path")
        if path.startswith("-"):
            raise ToolError(f"{path!r} is no path. Give test files, folders or ids; use run for other options.")
    options = ["-q", "--tb=short", "--no-header", "-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider"]
    return [*options, "--import-mode=importlib", "-W", "ignore", "--color=no", *paths]


def _check(text: str, what: str) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolError(f"The {what} has lone surrogates in it.") from None
    if "\0" in text:
        raise ToolError(f"The {what} has a NUL character in it.")
    if size > MAX_COMMAND_BYTES:
        raise ToolError(f"The {what} has {size} bytes; write a file and run that.")
