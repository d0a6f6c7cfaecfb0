"""The openings of episodes, from which other trainers' data sets of prompts are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from agentgym.errors import UsageError
from agentgym.messages import Message, text_of
from agentgym.registry import make
from agentgym.task import Task, check_split


@dataclass(frozen=True)
class Opening:
    """How the episode of one task and seed begins."""

    task: Task
    seed: int
    messages: list[Message]
    tools: list[dict[str, Any]]
    """The schemas of its tools."""

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The messages with a role and text alone, as tables can hold them."""
        return [{"role": str(message.get("role")), "content": text_of(message)} for message in self.messages]


def openings(
    env: str, *, split: str | None = None, count: int | None = None, start: int = 0, seed: int = 0, **arguments: Any
) -> Iterator[Opening]:
    """Yield the openings of consecutive tasks, each with a seed of its own.

    Args:
        env: The environment, as for `agentgym.make`.
        split: By default, the environment's own choice.
        count: How many; by default all tasks from `start` on.
        start: The first task's index.
        seed: The seed of the task with index 0; task `i` has `seed + i`.
        arguments: The environment's arguments.

    Raises:
        UsageError: The split has no end, and no `count` is given.
    """
    with closing(make(env, **arguments)) as made:
        split = made.split if split is None else check_split(made.tasks, split)
        size = made.tasks.size(split)
        if count is None and size is None:
            raise UsageError(f"split {split!r} of {env!r} has no end: say how many rows, with count=")
        stop = start + count if count is not None else size or 0
        for index in range(start, stop):
            messages, info = made.reset(seed=seed + index, options={"split": split, "index": index})
            yield Opening(made.task, seed + index, messages, info["tools"])
