"""Writes tasks of an environment as Harbor task folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.task import Task
from agentgym.tasks.exporting.folders import HasHarborFolders, write_folder


def export_harbor(env: Env, env_id: str, tasks: Iterable[Task], out: Path, image: str) -> list[Path]:
    """Write tasks as Harbor task folders and return the folders.

    Args:
        env: The environment of the tasks.
        env_id: Its id.
        tasks: The tasks.
        out: The folder to write them to.
        image: The image that their Dockerfiles start from, with bash and Python 3.11 or newer.

    Raises:
        UsageError: Tasks of this environment, or one of these, cannot be written; or a folder exists.
    """
    if not isinstance(env, HasHarborFolders):
        raise UsageError(
            f"tasks of {env_id!r} cannot be written as Harbor folders: its class has no method harbor_folder "
            "(agentgym.tasks.exporting.HasHarborFolders); code, sql and swe have it"
        )
    return [write_folder(out, task, env_id, env.harbor_folder(task), image) for task in tasks]
