"""From the arguments of `SearchEnv` to tasks and tools; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.choices import given_apart_from
from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.tasks.search import SearchTasks
from agentgym.tasks.search_files import SearchFileTasks

FILE_CHOICES = frozenset({"folder", "format"})


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, or the source that `choices` (a file or folder, or arguments of `SearchTasks`) describe."""
    given = given_apart_from(tasks, choices)
    if tasks is not None:
        return tasks
    if "folder" not in given:
        return SearchTasks(**given)
    if others := set(given) - FILE_CHOICES:
        raise UsageError(f"questions from files have no {sorted(others)} to choose")
    return SearchFileTasks(given["folder"], **({"format": given["format"]} if "format" in given else {}))


def tool_names(*, pages: bool, judge: bool, two_stage: bool) -> tuple[str, ...]:
    """Return the names of the tools that are offered."""
    names = ["search", *(("open", "more", "find") if pages else ()), "answer"]
    return (*(["decide"] if two_stage else []), *names, *(["judge"] if judge else []))


def between(name: str, value: int, least: int, most: int) -> int:
    """Return `value` if it lies in the bounds."""
    if not least <= value <= most:
        raise UsageError(f"{name} must be from {least} to {most}, not {value!r}")
    return value
