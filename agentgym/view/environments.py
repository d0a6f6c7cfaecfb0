"""The environments of recordings: their reward schemes and tasks, unless a recording is not trusted to name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import AgentGymError
from agentgym.core.making import recorded_arguments, refuse_class
from agentgym.core.registry import class_of, make
from agentgym.core.rewards import Scheme
from agentgym.core.task import Task, TaskSource, may_be_same
from agentgym.core.trajectory import Trajectory


@dataclass(frozen=True)
class Unknown:
    """Why the scheme or the task of a recording is unknown."""

    reason: str


class Environments:
    """The schemes and tasks of environments, by their id and arguments; each environment is made once.

    Args:
        trust: Accept any class and any argument from a recording.
    """

    def __init__(self, *, trust: bool = False):
        self._trust = trust
        self._parts: dict[str, tuple[Scheme, TaskSource] | Unknown] = {}

    def scheme_of(self, trajectory: Trajectory) -> Scheme | Unknown:
        """Return the scheme of a trajectory's environment, or why it is unknown."""
        parts = self._parts_of(trajectory)
        return parts if isinstance(parts, Unknown) else parts[0]

    def task_of(self, trajectory: Trajectory) -> Task | Unknown:
        """Return the task of a trajectory, with its gold, or why it is unknown."""
        parts = self._parts_of(trajectory)
        if isinstance(parts, Unknown):
            return parts
        try:
            task = parts[1].find(trajectory.task_id)
        except Exception as error:  # the environment's code may raise anything
            return Unknown(f"the task cannot be loaded: {_without_advice(error)}")
        if not may_be_same(task.hash, trajectory.task_hash):
            return Unknown("the task has changed since it was played")
        return task

    def _parts_of(self, trajectory: Trajectory) -> tuple[Scheme, TaskSource] | Unknown:
        key = json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)
        if key not in self._parts:
            self._parts[key] = self._make(trajectory.env_id, trajectory.env_kwargs)
        return self._parts[key]

    def _make(self, env_id: str, arguments: Mapping[str, Any]) -> tuple[Scheme, TaskSource] | Unknown:
        try:
            if not self._trust:
                refuse_class(env_id, "the recording")
                arguments = recorded_arguments(class_of(env_id), arguments, {}, "the recording")
            env = make(env_id, **arguments)
            try:
                return env.scheme, env.tasks
            finally:
                env.close()
        except Exception as error:  # the environment's code may raise anything
            return Unknown(f"the environment {env_id!r} cannot be made: {_without_advice(error)}")


def _without_advice(error: Exception) -> str:
    text = str(error).partition("; if you trust it")[0]
    return text if isinstance(error, AgentGymError) else f"{type(error).__name__}: {text}"
