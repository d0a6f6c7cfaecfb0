"""From the arguments of `SQLEnv` to a task source and limits; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.choices import given_apart_from, limits_from
from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.tasks.sql import SQLTasks
from agentgym.tasks.sql_files import SpiderTasks
from agentgym.tools.database import QueryLimits


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, or the source that `choices` (a folder, or arguments of `SQLTasks`) describe."""
    given = given_apart_from(tasks, choices)
    if tasks is not None:
        return tasks
    if "folder" not in given:
        if "keep_degenerate" in given:
            raise UsageError("keep_degenerate is for questions from a folder; generated ones are never degenerate")
        return SQLTasks(**given)
    if others := set(given) - {"folder", "keep_degenerate"}:
        raise UsageError(f"questions from a folder have no {sorted(others)} to choose")
    return SpiderTasks(**given)


def query_limits(limits: QueryLimits | Mapping[str, Any] | None) -> QueryLimits:
    """Return limits that are given whole, by name, or not at all."""
    return QueryLimits(**limits_from(QueryLimits, limits))


def at_least(name: str, value: int, least: int) -> int:
    """Return `value` if it is not less than `least`."""
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value!r}")
    return value
