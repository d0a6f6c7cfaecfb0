"""Data exchanged between an environment and its player: reset options, step results, solutions and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

from agentgym.engine.answers import as_data
from agentgym.engine.spaces import Action
from agentgym.errors import UsageError
from agentgym.messages import Message, ToolCall
from agentgym.task import Task, TaskSource, check_split

Solution = Generator[ToolCall | str, list[Message], None]
"""A reference policy: a generator of tool calls (or plain text) that is sent the observation after each."""


ENGINE_INFO = frozenset({"rewards", "turn", "ending", "is_success", "counts"})
"""Keys that the engine sets in a step's `info`; all others come from `Env.details`."""


RESET_INFO = frozenset({"task", "split", "difficulty", "tools"})
"""Keys that the engine sets in the `info` of a reset."""


def details_in(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment's own entries in a step's `info`, as JSON data."""
    return {str(name): as_data(value) for name, value in info.items() if name not in ENGINE_INFO}


class StepResult(NamedTuple):
    """The five return values of a Gymnasium step."""

    observation: list[Message]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """A state of an episode, stored as the inputs that reproduce it."""

    task: Task
    seed: int | None
    actions: tuple[Action, ...]
    training_step: int | None = None


def reset_options(task: Task | str, training_step: int | None = None) -> dict[str, Any]:
    """Return the options of `Env.reset` that start an episode of `task` (a task or its id) at a training step."""
    return {"task": task} if training_step is None else {"task": task, "training_step": training_step}


def training_step_in(options: Mapping[str, Any] | None) -> int | None:
    """Return the training step in the options of `Env.reset`. Raises `UsageError` if it is invalid."""
    step = options.get("training_step") if options else None
    if step is not None and (not isinstance(step, int) or isinstance(step, bool) or step < 0):
        raise UsageError(f"training_step is a whole number from 0 upwards, not {step!r}")
    return step


def select_task(
    tasks: TaskSource, split: str, options: Mapping[str, Any], seed: int | None, draw: Callable[[int], int]
) -> Task:
    """Return the task to play.

    Args:
        tasks: The source of the task.
        split: The split to draw from by default.
        options: The options of `Env.reset`: `task`, or `split` and `index`.
        seed: Chooses the task if the options do not.
        draw: Returns a random integer below its argument; chooses the task if there is no seed either.

    Raises:
        UsageError: An option is unknown, or the index is not a number.
        TaskError: The split or the task does not exist.
    """
    if unknown := set(options) - {"task", "split", "index", "training_step"}:
        raise UsageError(f"unknown reset options {sorted(unknown)}; known: index, split, task, training_step")
    if (task := options.get("task")) is not None:
        return task if isinstance(task, Task) else tasks.find(str(task))
    split, index = check_split(tasks, options.get("split", split)), options.get("index")
    if index is not None and (not isinstance(index, Integral) or isinstance(index, bool)):
        raise UsageError(f"the index of a task is a whole number, not {type(index).__name__!r}")
    if index is None:
        size = tasks.size(split) or 2**31
        index = draw(size) if seed is None else _scramble(seed) % size
    return tasks.get(split, int(index))


def _scramble(seed: int) -> int:
    """Return a 64-bit hash of `seed`, so that neighbouring seeds choose unrelated tasks."""
    mixed = (seed + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ mixed >> 29) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return mixed ^ mixed >> 32
