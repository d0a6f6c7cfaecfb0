"""Search that gets worse on purpose (ZeroSearch, SSRL): from plain settings to an index for one task.

Training takes the tasks of a generated source in order, so a task's number says how far training has come, for all
members of its group alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from agentgym.errors import UsageError
from agentgym.task import Task
from agentgym.tools.index import Index, OpenAIEndpoint, Schedule, SimulatedIndex

_SCHEDULE = tuple(field.name for field in fields(Schedule))
_OWN = ("misleading", "seed", "step", "tasks_per_step", "endpoint")


class Simulation:
    """The settings of `SearchEnv(simulated=...)`.

    Args:
        settings: `start`, `end`, `base`, `total` of the schedule; `misleading`, `seed` of `SimulatedIndex`; `step`, or
            `tasks_per_step` to count steps by the task's number; `endpoint`: arguments of `OpenAIEndpoint`, to let a
            model write the documents.
    """

    def __init__(self, settings: Mapping[str, Any]):
        if unknown := set(settings) - {*_SCHEDULE, *_OWN}:
            raise UsageError(
                f"unknown settings of simulated {sorted(unknown)}; known: {', '.join((*_SCHEDULE, *_OWN))}"
            )
        self._schedule = Schedule(**{name: settings[name] for name in _SCHEDULE if name in settings})
        self._seed = int(settings.get("seed", 0))
        self._misleading = float(settings.get("misleading", 0.5))
        self._step, self._per_step = settings.get("step"), settings.get("tasks_per_step")
        if self._step is None and (not isinstance(self._per_step, int) or self._per_step < 1):
            raise UsageError("simulated needs step, or tasks_per_step (a whole number above 0), to know how bad it is")
        endpoint = settings.get("endpoint")
        self._writer = None if endpoint is None else OpenAIEndpoint(**endpoint)
        self._made: tuple[Index, SimulatedIndex] | None = None

    def index_for(self, task: Task, inner: Index) -> Index:
        """Return `inner` as bad as it is to be for this task."""
        if self._made is None or self._made[0] is not inner:
            made = SimulatedIndex(inner, self._schedule, self._seed, self._writer, misleading=self._misleading)
            self._made = inner, made
        answers = task.gold["answers"]
        background = f"Question: {task.prompt}\nAnswer: {answers[0]}" if answers else f"Question: {task.prompt}"
        return self._made[1].at(self.step_of(task), background=background, truths=answers)

    def step_of(self, task: Task) -> float:
        """Return the step that a task belongs to."""
        if self._step is not None:
            return float(self._step)
        number = task.id.rpartition("/")[2]
        return int(number) / self._per_step if number.isdecimal() and self._per_step else 0.0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}
