"""Tasks of one environment, chosen on the command line, as an unpinned suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.env import Env
from agentgym.making import full_env_id
from agentgym.rollout.limits import Limits
from agentgym.suites.suite import UNPINNED, Suite, SuiteEntry
from agentgym.task import Task


@dataclass(frozen=True)
class ListedTasks(SuiteEntry):
    """An entry with a list of tasks, such as from a manifest."""

    task_list: Sequence[Task] = ()

    def tasks(self, env: Env) -> list[Task]:
        """Return the tasks."""
        return list(self.task_list)


def one_off(
    env: str, arguments: Mapping[str, Any], tasks: Sequence[Task], *, attempts: int, limits: Limits, temperature: float
) -> Suite:
    """Return tasks of an environment as a suite of version `UNPINNED`.

    Args:
        env: Id of the environment, or `module:Class`.
        arguments: Its arguments.
        tasks: The tasks, in playing order.
        attempts: Trajectories per task.
        limits: Limits of each episode.
        temperature: Sampling temperature of policies that sample.
    """
    name = full_env_id(env).removeprefix("agentgym/")
    pins = {task.id: task.hash for task in tasks}
    dialect = None  # a chosen dialect is in the arguments
    entry = ListedTasks(name, env, arguments, pins, attempts, limits, dialect, temperature, (), {}, {}, tasks)
    return Suite(name, UNPINNED, "", (entry,), Path())
