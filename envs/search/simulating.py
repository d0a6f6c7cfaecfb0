"""Search that gets worse on purpose (ZeroSearch, SSRL): from plain settings to an index for one task.

How bad results are depends on the step that the trainer is at, which reaches the environment through
`reset(options={"training_step": ...})`. All members of a group play at the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from agentgym.errors import UsageError
from agentgym.task import Task
from agentgym.tools.index import Index, OpenAIEndpoint, Schedule, SimulatedIndex

_SCHEDULE = tuple(field.name for field in fields(Schedule))
_OWN = ("misleading", "seed", "step", "endpoint")


class Simulation:
    """The settings of `SearchEnv(simulated=...)`.

    Args:
        settings: `start`, `end`, `base`, `total` of the schedule, `total` being the length of the curriculum in steps
            of training; `misleading`, `seed` of `SimulatedIndex`; `step`: a step to stay at, whatever the trainer
            says; `endpoint`: arguments of `OpenAIEndpoint`, to let a model write the documents.
    """

    def __init__(self, settings: Mapping[str, Any]):
        if unknown := set(settings) - {*_SCHEDULE, *_OWN}:
            raise UsageError(
                f"unknown settings of simulated {sorted(unknown)}; known: {', '.join((*_SCHEDULE, *_OWN))}"
            )
        self._schedule = Schedule(**{name: settings[name] for name in _SCHEDULE if name in settings})
        self._seed = int(settings.get("seed", 0))
        self._misleading = float(settings.get("misleading", 0.5))
        self._step = settings.get("step")
        if self._step is not None and (not isinstance(self._step, int | float) or self._step < 0):
            raise UsageError(f"the step of simulated is a number from 0 upwards, not {self._step!r}")
        endpoint = settings.get("endpoint")
        self._writer = None if endpoint is None else OpenAIEndpoint(**endpoint)
        self._made: tuple[Index, SimulatedIndex] | None = None

    def index_for(self, task: Task, inner: Index, training_step: int | None) -> Index:
        """Return `inner` made as bad for this task as the schedule wants at a training step."""
        if self._made is None or self._made[0] is not inner:
            made = SimulatedIndex(inner, self._schedule, self._seed, self._writer, misleading=self._misleading)
            self._made = inner, made
        answers = task.gold["answers"]
        background = f"Question: {task.prompt}\nAnswer: {answers[0]}" if answers else f"Question: {task.prompt}"
        return self._made[1].at(self.step_at(training_step), background=background, truths=answers)

    def step_at(self, training_step: int | None) -> float:
        """Return the step of the schedule: the fixed one, else the trainer's, and 0 outside of training."""
        return float(self._step if self._step is not None else training_step or 0)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}
