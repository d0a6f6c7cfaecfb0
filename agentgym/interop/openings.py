"""The openings of episodes, for data sets of prompts, and messages in the form of chat endpoints."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.messages import Message, shown_pictures, text_of
from agentgym.core.registry import make
from agentgym.core.task import Task, check_split


@dataclass(frozen=True)
class PromptRow:
    """The opening of the episode of one task and seed."""

    task: Task
    index: int
    """The task's index in its split."""
    seed: int
    messages: list[Message]
    tools: list[dict[str, Any]]
    """The schemas of its tools."""

    @property
    def named(self) -> dict[str, Any]:
        """The columns that identify the episode, for `episode_named`."""
        return {"task_id": self.task.id, "seed": self.seed}

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The messages with only a role and text, for data sets."""
        return [{"role": str(message.get("role")), "content": text_of(message)} for message in self.messages]


def openings(
    env: str, *, split: str | None = None, count: int | None = None, start: int = 0, seed: int = 0, **arguments: Any
) -> Iterator[PromptRow]:
    """Yield the openings of consecutive tasks, each with its own seed.

    Args:
        env: The environment, as for `agentgym.make`.
        split: By default, the environment's own choice.
        count: Number of tasks; by default all from `start` on.
        start: The first task's index.
        seed: The seed of the task with index 0; task `i` has `seed + i`.
        arguments: The environment's arguments.

    Raises:
        UsageError: The split is endless and there is no `count`.
    """
    with closing(make(env, **arguments)) as instance:
        split = instance.split if split is None else check_split(instance.tasks, split)
        size = instance.tasks.size(split)
        if count is None and size is None:
            raise UsageError(f"split {split!r} of {env!r} is endless: set the number of rows with count=")
        stop = start + count if count is not None else size or 0
        for index in range(start, stop):
            messages, info = instance.reset(seed=seed + index, options={"split": split, "index": index})
            yield PromptRow(instance.task, index, seed + index, messages, info["tools"])


def episode_named(row: Mapping[str, Any], maker: str, where: str = "the row") -> tuple[str, int]:
    """Return the task id and the seed in a row.

    Args:
        row: The row's columns.
        maker: The function that makes such rows, for the error.
        where: The name of the columns' container, for the error.

    Raises:
        UsageError: A column is missing.
    """
    if "task_id" not in row or "seed" not in row:
        raise UsageError(f"{where} needs task_id and seed: make the rows with {maker}")
    return str(row["task_id"]), int(row["seed"])


Wire = dict[str, Any]
"""A message in the format of chat endpoints."""


def sendable(messages: Iterable[Message]) -> list[Wire]:
    """Return observations in the format of chat endpoints.

    Pictures become data URLs. Pictures of tools follow the results in a user message, since tool messages are text.
    """
    sent: list[Wire] = []
    tool_pictures: list[Wire] = []
    for message in messages:
        pictures = [picture_block(picture) for picture in shown_pictures([message])]
        if message.get("role") == "tool":
            text = text_of(message)
            sent.append({"role": "tool", "tool_call_id": message.get("tool_call_id", ""), "content": text})
            tool_pictures += pictures
        else:
            sent.append({**message, "content": _content(text_of(message), pictures)})
    return [*sent, {"role": "user", "content": tool_pictures}] if tool_pictures else sent


def picture_block(picture: bytes) -> Wire:
    """Return a PNG file as a block of a user message."""
    return {"type": "image_url", "image_url": {"url": picture_url(picture)}}


def picture_url(picture: bytes) -> str:
    """Return a PNG file as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _content(text: str, pictures: Sequence[Wire]) -> str | list[Wire]:
    return [{"type": "text", "text": text}, *pictures] if pictures else text
