"""Where the user's files are does not make another task: the paths of files within tasks, and what stands for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym.task import Task


def moved(task: Task, places: Mapping[str, str]) -> Task:
    """Return a task whose data names other places.

    Args:
        task: The task.
        places: Maps a path to what replaces it, alone or at the beginning of a longer path.
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
