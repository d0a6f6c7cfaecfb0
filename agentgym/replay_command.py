"""`agentgym replay`: play the trajectories of a file again and print what came of it, line by line."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agentgym.env import Env
from agentgym.errors import AgentGymError
from agentgym.options import make_env
from agentgym.replay import replay
from agentgym.show import plain
from agentgym.task import Task, TaskList, read_manifest
from agentgym.trajectory import Trajectory, read_jsonl


def replay_file(file: Path, manifest: Path | None = None, console: Console | None = None) -> bool:
    """Replay all trajectories of `file`; return whether all came out as recorded.

    Args:
        file: JSONL of trajectories.
        manifest: Where the tasks are, if they are not the environment's own.
        console: Where to print.
    """
    console = console or Console()
    tasks = None if manifest is None else read_manifest(manifest)
    envs: dict[str, Env] = {}
    same = total = 0
    try:
        for trajectory in read_jsonl(file):
            problem = _problem(trajectory, envs, tasks)
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
    console.print(
        Text(f"{same} of {total} trajectories came out as recorded", style="green" if same == total else "red")
    )
    return same == total


def _problem(trajectory: Trajectory, envs: dict[str, Env], tasks: TaskList | None) -> str | None:
    """Return what is different, or why the trajectory cannot be replayed."""
    key = json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)
    try:
        if key not in envs:
            envs[key] = make_env(trajectory.env_id, trajectory.env_kwargs)
        task: Task | None = None if tasks is None else tasks.find(trajectory.task_id)
        difference = replay(trajectory, envs[key], task)
    except AgentGymError as error:
        return f"cannot be replayed: {plain(str(error), 500)}"
    return None if difference is None else plain(str(difference), 1000)
