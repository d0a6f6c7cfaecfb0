"""The commands that an agent's tools run in its sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import ToolError

MAX_COMMAND_BYTES = 100_000
"""Longer commands cannot be passed to a program on some systems."""


def command_of(command: str) -> list[str]:
    """Return the program that runs a shell command. Raises `ToolError` if it cannot be passed to a program."""
    if not command.strip():
        raise ToolError("The command is empty.")
    _check(command, "command")
    return ["bash", "-c", command]


def pytest_arguments(paths: Sequence[str]) -> list[str]:
    """Return pytest arguments that run tests as in grading. Raises `ToolError` for an option among the paths."""
    for path in paths:
        _check(path, "path")
        if path.startswith("-"):
            raise ToolError(f"{path!r} is not a path. Give test files, folders or test ids; use run for options.")
    options = ["-q", "--tb=short", "--no-header", "-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider"]
    return [*options, "--import-mode=importlib", "-W", "ignore", "--color=no", *paths]


def _check(text: str, what: str) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolError(f"The {what} contains lone surrogates.") from None
    if "\0" in text:
        raise ToolError(f"The {what} contains a NUL character.")
    if size > MAX_COMMAND_BYTES:
        raise ToolError(f"The {what} has {size} bytes, too many; write a script and run that.")
