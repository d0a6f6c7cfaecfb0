"""What goes between an environment and who plays it: the result of a step, a solution, a state to come back to."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.messages import Message, ToolCall
from agentgym.spaces import Action
from agentgym.task import Task

Solution = Generator[ToolCall | str, list[Message], None]
"""A reference policy: yields tool calls (or plain text), is sent the observation that followed each."""


class StepResult(NamedTuple):
    """Gymnasium's five values."""

    observation: list[Message]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """A state of an episode: what to do to be there again."""

    task: Task
    seed: int | None
    actions: tuple[Action, ...]
    training_step: int | None = None


def reset_options(task: Task | str, training_step: int | None = None) -> dict[str, Any]:
    """Return the options of `Env.reset` that start an episode of `task` (a task or its id) at a training step."""
    return {"task": task} if training_step is None else {"task": task, "training_step": training_step}
