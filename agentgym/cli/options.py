"""Convert command-line options to time limits and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.base.choices import named
from agentgym.base.errors import UsageError
from agentgym.base.settings import parse_settings
from agentgym.core.env import Env
from agentgym.core.foreign import as_usage_error
from agentgym.core.task import Task, check_split, iterate, read_manifest

_TIMEOUTS = {name: f"{name}_timeout_s" for name in ("generation", "reset", "step", "tool", "episode")}

ENDLESS_LIMIT = 100
"""Default number of tasks from an endless split."""


def timeouts_in(pairs: Iterable[str]) -> dict[str, Any]:
    """Return time limits such as `tool=30` as arguments of `Limits`.

    Raises:
        UsageError: There is no such limit, or the value is not a number of seconds.
    """
    limits: dict[str, Any] = {}
    for name, seconds in parse_settings(pairs, "--timeout").items():
        argument = named("time limit", name, _TIMEOUTS)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise UsageError(f"--timeout {name} takes a number of seconds, or null for no limit, not {seconds!r}")
        limits[argument] = seconds
    return limits


def choose_tasks(env: Env, spec: str, limit: int | None = None) -> list[Task]:
    """Return the tasks that `spec` names: a manifest (JSONL file), or a split of the environment's own tasks.

    Args:
        env: The environment that has the tasks.
        spec: A manifest or a split.
        limit: Maximum number of tasks; by default all, or the first 100 of an endless split.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"the number of tasks must be at least 1, not {limit}")
    path = Path(spec)
    if spec not in env.tasks.splits and (path.suffix == ".jsonl" or path.is_file()):
        if not path.is_file():
            raise UsageError(f"the manifest {spec!r} does not exist; write one with: agentgym tasks ENV --out {spec}")
        source = read_manifest(path)
        return list(chain.from_iterable(iterate(source, split) for split in source.splits))[:limit]
    if env.tasks.size(check_split(env.tasks, spec)) is None and limit is None:
        limit = ENDLESS_LIMIT
    with as_usage_error(f"the tasks of the split {spec!r} cannot be loaded"):
        return list(iterate(env.tasks, spec, limit))
