"""The modes of `SearchEnv` by name, and the parsing of its argument `mode`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym.base.choices import named, nearest
from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.task import Task
from agentgym.envs.search.deciding import Deciding
from agentgym.envs.search.judging import Judging
from agentgym.envs.search.playing import Mode, ModePart
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


MODES: Mapping[str, type[Mode]] = {"reseek": Judging, "adasearch": Deciding, "zerosearch": Simulating}

ModeLike = Mode | str | Mapping[str, Any]
"""A mode, its name, or its settings by name with `name` among them, such as `{"name": "zerosearch", "total": 100}`."""


def modes_of(value: ModeLike | Iterable[ModeLike] | None, available: Mapping[str, type[Mode]]) -> tuple[Mode, ...]:
    """Return the modes of an argument.

    Args:
        value: A mode, its name or its settings, or several of these.
        available: The modes that can be named.

    Raises:
        UsageError: There is no such mode, it has no such setting, or it is given twice.
    """
    if value is None:
        return ()
    entries = [value] if isinstance(value, Mode | str | Mapping) or not isinstance(value, Iterable) else value
    modes = [_mode(entry, available) for entry in entries]
    if len({type(mode) for mode in modes}) < len(modes):
        raise UsageError(f"each mode can be given once, not as in {value!r}")
    return tuple(modes)


def _mode(value: Any, available: Mapping[str, type[Mode]]) -> Mode:
    if isinstance(value, Mode):
        return value
    if isinstance(value, str):
        return named("mode", value, available)()
    if not isinstance(value, Mapping) or "name" not in value:
        raise UsageError(
            f"mode must be one of {', '.join(available)}, or its settings {{name: NAME, ...}}, not {value!r}"
        )
    kind = named("mode", value["name"], available)
    settings = {key: setting for key, setting in value.items() if key != "name"}
    takes = list(inspect.signature(kind).parameters)
    for key in settings:
        if key not in takes:
            raise UsageError(
                f"mode {value['name']!r} has no setting {key!r}{nearest(key, takes)} It has: {', '.join(takes)}"
            )
    return kind(**settings)
