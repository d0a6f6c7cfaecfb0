"""Converts command-line options to environments and tasks, with clear errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.choices import named
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.foreign.errors import as_usage_error
from agentgym.making import arguments_of
from agentgym.registry import class_of
from agentgym.settings import parse_settings
from agentgym.task import Task, check_split, iterate, read_manifest

_TIMEOUTS = {name: f"{name}_timeout_s" for name in ("generation", "reset", "step", "tool", "episode")}

ENDLESS_LIMIT = 100
"""Default number of tasks from an endless split."""


def with_strict(env_id: str, kwargs: Mapping[str, Any], strict: bool) -> dict[str, Any]:
    """Return the arguments, with `strict=True` added if wanted and if the environment takes it."""
    takes = strict and "strict" in arguments_of(class_of(env_id))
    return {**kwargs, "strict": True} if takes else dict(kwargs)


def timeouts_in(pairs: Iterable[str]) -> dict[str, Any]:
    """Return time limits such as `tool=30` as arguments of `Limits`.

    Raises:
        UsageError: There is no such limit, or the value is not a number of seconds.
    """
    found: dict[str, Any] = {}
    for name, seconds in parse_settings(pairs, "--timeout").items():
        argument = named("time limit", name, _TIMEOUTS)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise UsageError(f"--timeout {name} takes a number of seconds, or null for no limit, not {seconds!r}")
        found[argument] = seconds
    return found


def choose_tasks(env: Env, spec: str, limit: int | None = None) -> list[Task]:
    """Return the tasks that `spec` names: a manifest (JSONL file), or a split of the environment's own tasks.

    Args:
        env: The environment that has the tasks.
        spec: A manifest or a split.
        limit: Maximum number of tasks; by default all, or the first 100 of an endless split.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"at least 1 task is needed, not {limit}")
    path = Path(spec)
    if spec not in env.tasks.splits and (path.suffix == ".jsonl" or path.is_file()):
        if not path.is_file():
            raise UsageError(f"there is no manifest {spec!r}; write one with: agentgym tasks ENV --out {spec}")
        source = read_manifest(path)
        return list(chain.from_iterable(iterate(source, split) for split in source.splits))[:limit]
    if env.tasks.size(check_split(env.tasks, spec)) is None and limit is None:
        limit = ENDLESS_LIMIT
    with as_usage_error(f"the tasks of the split {spec!r} cannot be loaded"):
        return list(iterate(env.tasks, spec, limit))
