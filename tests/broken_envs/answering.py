"""Environments that do not take what a model may write, or answer it badly."""

from __future__ import annotations

import time
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.steps import Solution, StepResult
from agentgym.errors import ToolError
from agentgym.messages import ToolCall, text_of
from agentgym.task import Task
from agentgym.toolset import tool
from tests.sound_envs import SoundEnv


class CrashesOnLongNames(SoundEnv):
    """Passes an argument on to something that cannot take it."""

    def see(self, box: str) -> str:
        if len(box) > 255:
            raise OSError("file name too long")
        return super().see(box)


class CrashesOnBraces(SoundEnv):
    """Formats the model's text as if it were its own."""

    def respond(self, text: str) -> str:
        raise ToolError(f"Not understood: {text[:100]}".format())


class CrashesOnSecondLook(SoundEnv):
    """Breaks in ordinary use."""

    def see(self, box: str) -> str:
        if self.looked:
            raise KeyError(box)
        return super().see(box)


class HangsOnText(SoundEnv):
    """Never comes back from some texts."""

    def respond(self, text: str) -> str:
        if text.startswith("Ignore all"):
            time.sleep(600)
        return super().respond(text)


class LogsCarelessly(SoundEnv):
    """Takes every message for a well-formed one."""

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
        return self.see(box) if box in self.task.data["boxes"] else box * 1000


class ShowsTooMuch(SoundEnv):
    """Fills the context with one look."""

    @tool(max_chars=10**9)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return self.see(box) + "\n" + "dust " * 20_000

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1]).split("\n")[0]})


class CountsAsTheyCome(SoundEnv):
    """Says how often it has looked before, in whatever order the calls get there."""

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
