"""Data exchanged between an environment and its player: reset options, step results, solutions and snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from numbers import Integral
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from agentgym.base.choices import count_of
from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.base.fields import is_messages
from agentgym.core.engine.spaces import Action
from agentgym.core.messages import Message, Pictured, ToolCall, deep_copy, user, with_pictures
from agentgym.core.task import Task, TaskSource, check_split
from agentgym.core.toolset import MAX_RESULT_CHARS, bounded


def as_text(answer: Any) -> str:
    """Return a hook's return value as message text."""
    return answer if isinstance(answer, str) else bounded(answer, MAX_RESULT_CHARS)


def as_message(answer: Any) -> Message:
    """Return a hook's return value, text or `Pictured`, as a user message."""
    text, pictures = without_pictures(answer)
    return with_pictures(user(as_text(text)), pictures)


def opening_messages(opening: Any) -> list[Message]:
    """Return the messages that open an episode: those that `start` returned, or one user message.

    Raises:
        UsageError: A list contains anything but chat messages, contains a system message, or ends with an assistant
            message.
    """
    if not isinstance(opening, list):
        return [as_message(opening)]
    if not opening or not is_messages(opening):
        raise UsageError("start() must return text, Pictured, or a list of chat messages with a role and a content")
    if any(message["role"] == "system" for message in opening):
        raise UsageError("start() returned a system message; set self.system_prompt instead")
    if opening[-1]["role"] == "assistant":
        raise UsageError("start() returned messages that end with the assistant's; the policy speaks next")
    return deep_copy(opening)  # the author may change them later


def limits_stated(turns: int, format_errors: int, *, needs_calls: bool) -> str:
    """Return the sentences of a system message that state which numbers of turns end an episode.

    Args:
        turns: Maximum number of turns.
        format_errors: Consecutive turns without a readable action that end the episode.
        needs_calls: Whether a message without a call is the model's mistake.
    """
    stated = f"You have {count_of(turns, 'turn')}, one for each message."
    if format_errors >= turns:
        return stated
    fault = "without a valid call" if needs_calls else "that cannot be read"
    if format_errors == 1:
        return f"{stated} A message {fault} ends the episode."
    return f"{stated} {format_errors} messages in a row {fault} end the episode."


def without_pictures(result: Any) -> tuple[Any, tuple[bytes, ...]]:
    """Split a tool's result into text and pictures."""
    return (result.text, result.pictures) if isinstance(result, Pictured) else (result, ())


def message_of(mistake: ToolError) -> str:
    """Return the message of a mistake. Raises `InfrastructureError` if an author's subclass cannot produce it."""
    try:
        return str(mistake)
    except Exception as error:
        raise InfrastructureError(f"the message of a {type(mistake).__name__} cannot be read") from error


def as_data(value: Any) -> Any:
    """Return a value as JSON data, with a note in place of anything else.

    Bad details must not lose the episode.
    """
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=plain_data), allow_nan=False))
    except Exception:  # reading an author's object may raise anything
        return _no_data(value)


def plain_data(value: Any) -> Any:
    """Return NumPy numbers and arrays, and tensors, as plain data; anything else as a note."""
    plain = getattr(value, "tolist", None)
    return plain() if callable(plain) else _no_data(value)


def _no_data(value: Any) -> str:
    return f"({type(value).__name__}: no JSON data)"


def finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Return channel values as finite numbers. Others are refused, because they would corrupt every mean.

    Raises:
        InfrastructureError: A value is not a finite number.
    """
    numbers: dict[str, float] = {}
    for name, value in values.items():
        try:
            numbers[name] = nan if isinstance(value, str | bytes) else float(value)
        except (TypeError, ValueError, OverflowError):
            numbers[name] = nan
        if not isfinite(numbers[name]):
            raise InfrastructureError(f"reward channel {name!r} was given {value!r}, which is not a finite number")
    return numbers


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
