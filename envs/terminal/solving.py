"""The reference policy: the task's own solution, put onto the machine and run with the agent's tools."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from pathlib import Path

from agentgym.engine.steps import Solution
from agentgym.errors import UsageError
from agentgym.messages import ToolCall
from agentgym.tasks.folders import TaskFolder
from agentgym.tasks.folders.spec import SOLUTION_PLACE

_PIECE = 60_000
"""Bytes of a binary file in one command."""


def solve(folder: TaskFolder, command_s: float) -> Solution:
    """Yield the calls that solve a task."""
    if folder.solution is None:
        raise UsageError(f"task {folder.name!r} has no solution of its own")
    for path in _files(folder.solution, folder.solution_script):
        yield from _written(path, f"{SOLUTION_PLACE}/{path.relative_to(folder.solution)}")
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in folder.solution_environment.items())
    script = f"{SOLUTION_PLACE}/{folder.solution_script}"
    command = f"chmod +x {script}; {variables} {script}" if variables else f"chmod +x {script}; {script}"
    yield ToolCall("bash", {"command": command, "timeout_s": command_s})
    yield ToolCall("submit")


def _files(folder: Path, script: str) -> list[Path]:
    """Return the files of a solution, the script last; only the script if it is not in a folder of its own."""
    if script != "solve.sh":
        return [folder / script]
    return sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name == script)


def _written(path: Path, place: str) -> Iterator[ToolCall]:
    data = path.read_bytes()
    try:
        yield ToolCall("write", {"path": place, "content": data.decode("utf-8")})
    except UnicodeDecodeError:
        yield ToolCall("write", {"path": place, "content": ""})
        for start in range(0, len(data), _PIECE):
            piece = base64.b64encode(data[start : start + _PIECE]).decode()
            yield ToolCall("bash", {"command": f"base64 -d <<< {piece} >> {shlex.quote(place)}"})
