"""Environments that pay for guesses, silence or unreadable answers, or hide what decides."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from tests.check.sound_envs import SPLITS, SoundEnv


class HalfAreDeclined(SoundEnv):
    """Every second answer is to decline, which takes no argument."""

    @tool
    def decline(self) -> str:
        """Say that the box is nobody's business, and end."""
        self.reward(OUTCOME, float(self.task.difficulty == 1))
        self.finish(Reason.ANSWERED)
        return "Well."

    def take(self, text: str) -> str:
        return super().take(text if self.task.difficulty == 2 else "")

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        if task.difficulty == 1:
            yield ToolCall("decline")
        else:
            yield ToolCall("answer", {"text": text_of(observation[-1])})


class PaysForWaiting(SoundEnv):
    """Counts an episode as solved that reaches the turn limit after a look."""

    def grade(self) -> dict[str, float]:
        return {OUTCOME: 1.0} if self.looked and self.reason is Reason.MAX_TURNS else {}


def marbles_task(split: str, index: int) -> Task:
    """Return a task with some jars and a question about the number of marbles in one."""
    rng = random.Random(f"marbles {split} {index}")
    jars = {str(n): rng.randrange(9, 18) for n in rng.sample(range(100, 999), 4)}
    jar = rng.choice(sorted(jars))
    prompt = f"How many marbles are in jar {jar}? Jars: {', '.join(jars)}."
    return Task(f"marbles/{split}/{index}", split, prompt, 1, {"boxes": jars}, {"box": jar, "count": jars[jar]})


class MarblesEnv(SoundEnv):
    """Count the marbles in a jar. A wrong number does not end the episode."""

    max_turns = 10

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("marbles", cls.make_task, SPLITS)

    make_task = staticmethod(marbles_task)

    def see(self, box: str) -> str:
        return f"{super().see(box)} marbles"

    @tool
    def answer(self, count: int) -> str:
        """Answer.

        Args:
            count: The number of marbles.
        """
        if count == self.task.gold["count"] or self.is_strict:
            self.reward(OUTCOME, float(count == self.task.gold["count"]))
            self.finish(Reason.ANSWERED)
        return "Noted."

    is_strict = False

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"count": int(re.findall(r"\d+", text_of(observation[-1]))[0])})


def labelled_task(how: str, split: str, index: int) -> Task:
    task = marbles_task(split, index)
    count = task.gold["count"]
    changes: dict[str, dict[str, Any]] = {
        "difficulty": {"difficulty": count},
        "tag": {"tags": ("jars", f"count:{count}")},
        "id": {"id": f"{task.id}-{count}"},
    }
    return replace(task, **changes.get(how, {}))


class TellsTheAnswer(MarblesEnv):
    """Tells the answer in the place `how`."""

    is_strict = True

    def __init__(self, how: str = "difficulty", **kwargs: Any):
        self.how = how
        super().__init__(tasks=LabelledTasks(how), **kwargs)

    def details(self) -> Mapping[str, Any]:
        return {"jar": {"of": self.task.gold["count"]}} if self.how == "info" else {}


class LabelledTasks(GeneratedTasks):
    """Tasks with a label that tells the answer."""

    def __init__(self, how: str):
        super().__init__("marbles", partial(labelled_task, how), SPLITS)

    def find(self, task_id: str) -> Task:
        return super().find(task_id.partition("-")[0])


class CountsThenCloses(MarblesEnv):
    """Keeps the best of all answers until the case is closed."""

    def start(self, task: Task) -> str:
        self.is_right = False
        return super().start(task)

    @tool
    def answer(self, count: int) -> str:
        """Note an answer.

        Args:
            count: The number of marbles.
        """
        self.is_right = self.is_right or count == self.task.gold["count"]
        return "Noted."

    @tool
    def close_case(self) -> str:
        """End."""
        self.reward(OUTCOME, float(self.is_right))
        self.finish(Reason.ANSWERED)
        return "Closed."

    def solution(self, task: Task) -> Solution:
        yield from super().solution(task)
        yield ToolCall("close_case")


class PaysWhatItCannotRead(SoundEnv):
    """Reads answers of digits as numbers, and counts one that is too long for that as right."""

    def take(self, text: str) -> str:
        try:
            text = str(int(text)) if text.isdecimal() else text
        except ValueError:
            text = self.task.gold["content"]
        return super().take(text)


class HiddenCoin(SoundEnv):
    """A coin that nobody sees decides how the answer must be written."""

    def start(self, task: Task) -> str:
        super().start(task)
        self.is_upper = bool(self.np_random.integers(2))
        return task.prompt

    def take(self, text: str) -> str:
        return super().take(text.lower() if self.is_upper and text.isupper() else f"{text}{'?' * self.is_upper}")

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        content = task.gold["content"]
        yield ToolCall("answer", {"text": content.upper() if self.is_upper else content})
