"""From the arguments of `SQLEnv` to a task source and limits; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.tasks.sql import SQLTasks
from agentgym.tasks.sql_files import SpiderTasks
from agentgym.tools.database import QueryLimits


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, or the source that `choices` (`folder`, or arguments of `SQLTasks`) describe."""
    given = {name: value for name, value in choices.items() if value is not None}
    if tasks is not None:
        if given:
            raise UsageError(f"tasks=... was given, so {sorted(given)} cannot be chosen too; give one or the other")
        return tasks
    folder = given.pop("folder", None)
    if folder is None:
        return SQLTasks(**given)
    if given:
        raise UsageError(f"questions from a folder have no {sorted(given)} to choose")
    return SpiderTasks(folder)


def query_limits(limits: QueryLimits | Mapping[str, Any] | None) -> QueryLimits:
    """Return limits that are given whole, by name, or not at all."""
    if isinstance(limits, QueryLimits):
        return limits
    known = QueryLimits.__dataclass_fields__
    if unknown := set(limits or ()) - set(known):
        raise UsageError(f"unknown limits {sorted(unknown)}; known: {', '.join(known)}")
    return QueryLimits(**(limits or {}))


def one_of(name: str, value: Any, valid: tuple[Any, ...]) -> Any:
    """Return `value` if it is among `valid`."""
    if value not in valid:
        raise UsageError(f"{name} must be one of {', '.join(valid)}, not {value!r}")
    return value


def at_least(name: str, value: int, least: int) -> int:
    """Return `value` if it is not less than `least`."""
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value!r}")
    return value
