"""Environments that keep every promise and pass all checks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool

Opening = tuple[list[Message], dict[str, Any]]
"""The type of a reset's result."""

SPLITS = {"train": 60, "test": 60}


def boxes_task(split: str, index: int) -> Task:
    """Return a task with some boxes and a question about the content of one."""
    rng = random.Random(f"boxes {split} {index}")
    metals = ["copper", "silver", "oak"]
    boxes = {str(n): f"{rng.choice(metals)} lantern {rng.randrange(10**6):06}" for n in range(1, 6)}
    box = rng.choice(sorted(boxes))
    return Task(
        id=f"boxes/{split}/{index}",
        split=split,
        prompt=f"What is in box {box}? Look, then answer.",
        difficulty=1 + index % 2,
        data={"boxes": boxes},
        gold={"box": box, "content": boxes[box], "rubric": f"Full marks for marker {rng.randrange(10**9):09}."},
    )


class SoundEnv(Env):
    """Say what is in a box."""

    channels = {
        OUTCOME: Channel("1 if the answer was right"),
        "effort": Channel("1 if a box was looked into", per_turn=True),
    }
    scheme = Scheme(
        weights={OUTCOME: 1.0, "effort": 0.1},
        gates=(Gate(on=OUTCOME, at_least=1.0, opens=("effort",)),),
        averaged=frozenset({"effort"}),
    )
    max_turns = 6

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", boxes_task, SPLITS)

    def start(self, task: Task) -> str:
        self.looked: list[str] = []
        return f"Room {self.np_random.integers(1000)}. {task.prompt}"

    @tool
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return self.see(box)

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: The content of the box.
        """
        return self.take(text)

    def take(self, text: str) -> str:
        self.reward(OUTCOME, float(text == self.task.gold["content"]))
        self.finish(Reason.ANSWERED)
        return f"Noted, after {len(self.looked)} looks."

    def see(self, box: str) -> str:
        if box not in self.task.data["boxes"]:
            raise ToolError(f"Unknown box {box[:20]!r}; boxes: {', '.join(self.task.data['boxes'])}.")
        self.looked.append(box)
        self.reward("effort", 1.0)
        return self.task.data["boxes"][box]

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1])})


class SoundOpenEnv(SoundEnv):
    """Shows the contents of all boxes in the opening, although the task's data lacks them."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", closed_task, SPLITS)

    def start(self, task: Task) -> str:
        self.boxes = boxes_task(*task.data["room"]).data["boxes"]
        return f"{super().start(task)} On the table: {self.boxes}"

    def see(self, box: str) -> str:
        if box not in self.boxes:
            raise ToolError(f"Unknown box {box[:20]!r}; boxes: {', '.join(self.boxes)}.")
        self.looked.append(box)
        self.reward("effort", 1.0)
        return self.boxes[box]


def closed_task(split: str, index: int) -> Task:
    """Return the same task without the contents of the boxes in its data."""
    return replace(boxes_task(split, index), data={"room": [split, index]})


class SoundFailingEnv(SoundEnv):
    """Defines a failing attempt: look into the right box and misread it."""

    def failing(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": "it was too dark to see"})


class SoundAsyncEnv(SoundEnv):
    """`SoundEnv` with an asynchronous tool."""

    @tool
    async def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        await asyncio.sleep(0)
        return self.see(box)


class SoundParallelEnv(SoundEnv):
    """`SoundEnv` with a concurrent tool."""

    @tool(concurrent=True)
    def look(self, box: str) -> Callable[[], str]:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return lambda: self.see(box)


class SoundTalkEnv(Env):
    """Repeat a word; needs no tools."""

    max_turns = 2

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("talk", talk_task, SPLITS)

    def respond(self, text: str) -> str:
        if text == self.task.data["word"]:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.SOLVED)
        return "Yes." if self.reason else "No."

    def solution(self, task: Task) -> Solution:
        yield task.data["word"]


def talk_task(split: str, index: int) -> Task:
    word = f"word-{split}-{index}"
    return Task(f"talk/{split}/{index}", split, f"Say {word}.", data={"word": word}, gold={"word": word})
