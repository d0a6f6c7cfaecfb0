"""Search whose results deliberately get worse during training (ZeroSearch, SSRL).

The trainer's step decides how bad they are; it reaches the environment as `reset(options={"training_step": ...})`. All
members of a group play at the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym.env import Env
from agentgym.envs.search.mode import Mode, ModePart
from agentgym.errors import UsageError
from agentgym.task import Task
from agentgym.tools.index import Index, OpenAIEndpoint, Schedule, SimulatedIndex


@dataclass(frozen=True)
class Simulating(Mode):
    """Make results worse during training (ZeroSearch)."""

    start: float = Schedule.start
    """Share of the results that are bad at step 0, from 0 to 1."""
    end: float = Schedule.end
    """Share of the results that are bad from step `total` on."""
    base: float = Schedule.base
    """How late the share rises; 1 is a straight line."""
    total: int = Schedule.total
    """Length of the curriculum in training steps."""
    misleading: float = 0.5
    """Share of the bad results that state falsehoods; the others are about something else."""
    seed: int = 0
    """Seed of the choice of bad results."""
    step: float | None = None
    """A fixed step, whatever the trainer's. By default the trainer's step, and 0 outside of training."""
    endpoint: Mapping[str, Any] | None = None
    """Arguments of `OpenAIEndpoint`: a model that writes the documents. Without it, they come from the index."""

    def __post_init__(self) -> None:
        if self.step is not None and (not isinstance(self.step, int | float) or self.step < 0):
            raise UsageError(f"the step of mode 'zerosearch' must be a number from 0 upwards, not {self.step!r}")

    @property
    def schedule(self) -> Schedule:
        """The share of bad results by training step."""
        return Schedule(**{field.name: getattr(self, field.name) for field in fields(Schedule)})

    def part(self, env: Env) -> Simulation:
        """Return the simulation of an environment."""
        return Simulation(env, self)

    def step_at(self, training_step: int | None) -> float:
        """Return the step of the schedule: the fixed one, else the trainer's, and 0 outside of training."""
        return float(self.step if self.step is not None else training_step or 0)


class Simulation(ModePart):
    """Replaces the environment's index with a worse one."""

    def __init__(self, env: Env, mode: Simulating):
        super().__init__(env)
        self._mode, self._schedule = mode, mode.schedule
        self._writer = None if mode.endpoint is None else OpenAIEndpoint(**mode.endpoint)
        if self._writer is not None:
            env.unrepeatable = "a language model writes the documents that its searches find"
        self._simulated: tuple[Index, SimulatedIndex] | None = None

    def index_for(self, task: Task, index: Index) -> Index:
        """Return `index` with bad results for this task, as scheduled for the current training step."""
        answers = task.gold["answers"]
        background = f"Question: {task.prompt}\nAnswer: {answers[0]}" if answers else f"Question: {task.prompt}"
        step = self._mode.step_at(self.env.training_step)
        return self._worse(index).at(step, background=background, truths=answers)

    def _worse(self, index: Index) -> SimulatedIndex:
        """Return the simulation over `index`, which is reused because it collects documents."""
        if self._simulated is None or self._simulated[0] is not index:
            mode = self._mode
            simulation = SimulatedIndex(index, self._schedule, mode.seed, self._writer, misleading=mode.misleading)
            self._simulated = index, simulation
        return self._simulated[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_simulated": None}
