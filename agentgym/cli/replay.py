"""`agentgym replay`: replay the trajectories of a file and print one line for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agentgym.base.console import console as terminal
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.display import plain
from agentgym.core.env import Env
from agentgym.core.making import make_env, recorded_arguments, refuse_class
from agentgym.core.registry import class_of
from agentgym.core.replay import replay
from agentgym.core.task import Task, TaskList, read_manifest
from agentgym.core.trajectory import Trajectory, read_jsonl


@dataclass(frozen=True)
class Replay:
    """A file to replay, with the user's own choices."""

    file: Path
    """JSONL of trajectories."""
    manifest: Path | None = None
    """Manifest with the tasks, if they are not the environment's own."""
    env: str | None = None
    """Environment to replay in, if not the recorded one: an id or `module:Class`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment that override recorded ones."""
    trust: bool = False
    """Accept any class and any argument from the file."""

    def make_env(self, trajectory: Trajectory) -> Env:
        """Make the environment for a trajectory. Raises `UsageError` if the file sets a forbidden argument."""
        env_id = self.env or trajectory.env_id
        if self.trust:
            return make_env(env_id, {**trajectory.env_kwargs, **self.settings})
        source = f"{self.file}: trajectory {trajectory.id!r}"
        if self.env is None:
            refuse_class(env_id, source)
        return make_env(env_id, recorded_arguments(class_of(env_id), trajectory.env_kwargs, self.settings, source))

    def task_of(self, trajectory: Trajectory) -> Task:
        """Return the task of a trajectory, from its environment. Raises as `make_env` does, and `TaskError`."""
        env = self.make_env(trajectory)
        try:
            return env.tasks.find(trajectory.task_id)
        finally:
            env.close()


def replay_file(request: Replay, console: Console | None = None) -> bool:
    """Replay all trajectories of a file; return whether all results match the recording.

    Args:
        wanted: The request.
        console: The console to print to.

    Raises:
        UsageError: The file contains no trajectory, has an invalid line, or sets an argument that it may not set.
    """
    console = console or terminal()
    tasks = None if request.manifest is None else read_manifest(request.manifest)
    envs: dict[str, Env] = {}
    same = total = 0
    try:
        for trajectory in read_jsonl(request.file):
            key = json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)
            if key not in envs:
                envs[key] = request.make_env(trajectory)
            problem = _problem(trajectory, envs[key], tasks)
            mark = ("✓ ", "green") if problem is None else ("✗ ", "bold red")
            line = Text.assemble(mark, (plain(trajectory.id, 200), "bold"))
            if problem is not None:
                line.append(f"  {problem}")
            console.print(line)
            total += 1
            same += problem is None
    finally:
        for env in envs.values():
            env.close()
    if not total:
        raise UsageError(f"{str(request.file)!r} contains no trajectory")
    console.print(
        Text(f"{same} of {total} trajectories came out as recorded", style="green" if same == total else "red")
    )
    return same == total


def _problem(trajectory: Trajectory, env: Env, tasks: TaskList | None) -> str | None:
    """Return the difference, or the reason why the trajectory cannot be replayed, or `None`."""
    try:
        task: Task | None = None if tasks is None else tasks.find(trajectory.task_id)
        difference = replay(trajectory, env, task)
    except AgentGymError as error:
        return f"cannot be replayed: {plain(str(error), 500)}"
    return None if difference is None else plain(str(difference), 1000)
