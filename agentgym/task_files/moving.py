"""Replaces the file paths within tasks, so that a task's hash does not depend on where the user's files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym.task import Task


def moved(task: Task, places: Mapping[str, str]) -> Task:
    """Return a task with other paths in its data.

    Args:
        task: The task.
        places: Maps a path to its replacement, alone or as a prefix of a longer path.
    """
    return replace(task, data=_moved(task.data, places)) if places else task


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _moved(item, places) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_moved(item, places) for item in value]
    for path, other in places.items():
        if value == path or (isinstance(value, str) and value.startswith(f"{path}/")):
            return f"{other}{value.removeprefix(path)}"
    return value
