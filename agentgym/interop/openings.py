"""The openings of episodes, from which other trainers' data sets of prompts are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    index: int
    """The task's place in its split."""
    seed: int
    messages: list[Message]
    tools: list[dict[str, Any]]
    """The schemas of its tools."""

    @property
    def named(self) -> dict[str, Any]:
        """The columns by which `episode_named` finds the episode again."""
        return {"task_id": self.task.id, "seed": self.seed}

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
            yield Opening(made.task, index, seed + index, messages, info["tools"])


def episode_named(row: Mapping[str, Any], maker: str, where: str = "the row") -> tuple[str, int]:
    """Return the task id and the seed of the episode that a row names.

    Args:
        row: The row's columns.
        maker: The function that makes such rows, for the error.
        where: What the columns are of, for the error.

    Raises:
        UsageError: The row names no episode.
    """
    if "task_id" not in row or "seed" not in row:
        raise UsageError(f"{where} needs task_id and seed: make the rows with {maker}")
    return str(row["task_id"]), int(row["seed"])
