"""Writes tasks of an environment as Harbor task folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agentgym.env import Env
from agentgym.envs.code import CodeEnv
from agentgym.envs.terminal.exporting.code import code_folder
from agentgym.envs.terminal.exporting.folders import Written, write_folder
from agentgym.errors import UsageError
from agentgym.task import Task

WRITERS: Mapping[type[Env], Callable[[Task, str], Written]] = {CodeEnv: code_folder}
"""The environments whose tasks can be written, each with the function that does it."""


def export_harbor(env: Env, env_id: str, tasks: Iterable[Task], out: Path, image: str) -> list[Path]:
    """Write tasks as Harbor task folders and return the folders.

    Args:
        env: The environment of the tasks.
        env_id: Its id.
        tasks: The tasks.
        out: The folder to write them to.
        image: The image that their Dockerfiles start from.

    Raises:
        UsageError: Tasks of this environment cannot be written, or a folder exists.
    """
    writer = WRITERS.get(type(env))
    if writer is None:
        names = ", ".join(kind.__name__ for kind in WRITERS)
        raise UsageError(f"tasks of {env_id!r} cannot be written as Harbor folders; those of these can: {names}")
    return [write_folder(out, task, env_id, writer(task, image)) for task in tasks]
