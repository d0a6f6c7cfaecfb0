"""Environments that break on some outputs of a model, or answer them badly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.messages import ToolCall, text_of, user
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from tests.check.sound_envs import Opening, SoundEnv


class CrashesOnBraces(SoundEnv):
    """Uses the model's text as a format string."""

    def respond(self, text: str) -> str:
        raise ToolError(f"Not understood: {text[:100]}".format())


class CrashesOnSecondLook(SoundEnv):
    """Breaks in ordinary use."""

    def see(self, box: str) -> str:
        if self.looked:
            raise KeyError(box)
        return super().see(box)


class HangsOnText(SoundEnv):
    """Hangs on some texts."""

    def respond(self, text: str) -> str:
        if text.startswith("Ignore all"):
            time.sleep(600)
        return super().respond(text)


class LogsCarelessly(SoundEnv):
    """Assumes that every message is well-formed."""

    def step(self, action: Any) -> StepResult:
        self.last = action.strip() if isinstance(action, str) else action["content"].strip()
        return super().step(action)


class PunishesMistakes(SoundEnv):
    """Ends the episode at the first wrong call."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        if self.reason is None and "Error: look:" in text_of(result.observation[-1]):
            return self.interrupt(Reason.FORMAT_ERRORS)._replace(observation=result.observation)
        return result


class EchoesWithoutBound(SoundEnv):
    """Repeats a long word of the model many times."""

    @tool(max_chars=10**9)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return self.see(box)

    def see(self, box: str) -> str:
        return super().see(box) if box in self.task.data["boxes"] else box * 1000


class ShowsTooMuch(EchoesWithoutBound):
    """Answers a look with a very long text."""

    def see(self, box: str) -> str:
        return SoundEnv.see(self, box) + "\n" + "dust " * 20_000

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1]).split("\n")[0]})


class CountsAsTheyCome(SoundEnv):
    """Numbers the looks in the order in which calls happen to run."""

    @tool(concurrent=True)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return f"{self.see(box)} (look {len(self.looked)})"

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1]).partition(" (")[0]})


class AnswersMistakesWithNo(SoundEnv):
    """Does not explain a wrong call."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result if self.reason or "Error" not in str(result[0]) else result._replace(observation=[user("No.")])


class TakesWordsForNumbers(SoundEnv):
    """Accepts any text as a number."""

    @tool
    def wait(self, minutes: int = 1) -> str:
        """Wait.

        Args:
            minutes: How long.
        """
        return "Waited."

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(observation=[user("Waited.")]) if "certainly not" in str(action) else result


class BreaksOnUnknownTools(SoundEnv):
    """Looks up tools without checking that they exist."""

    def step(self, action: Any) -> StepResult:
        for call in [] if isinstance(action, str) else action.get("tool_calls", ()):
            self.tools.get(call["function"]["name"]).parameters  # noqa: B018
        return super().step(action)


class HidesATool(SoundEnv):
    """Lists only its first tool."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        return observation, info | {"tools": info["tools"][:1]}


class Describes(SoundEnv):
    """Changes the description of its first tool in `info` by `changes`."""

    def __init__(self, changes: Any = None, **kwargs: Any):
        self.changes = changes or {}
        super().__init__(**kwargs)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        first, *rest = info["tools"]
        return observation, info | {"tools": [{**first, "function": {**first["function"], **self.changes}}, *rest]}
