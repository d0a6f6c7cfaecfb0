"""Environments that ignore their seed or depend on other state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.messages import ToolCall, user
from agentgym.core.task import Task
from tests.check.sound_envs import Opening, SoundEnv


class IgnoresSeed(SoundEnv):
    """Drops the seed."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        return super().reset(options=options)


class AlwaysTheSameTask(SoundEnv):
    """Ignores the seed when it chooses a task."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        return super().reset(seed=seed, options={"index": 0} | dict(options or {}))


class CountsResets(SoundEnv):
    """Numbers the resets without a seed per process."""

    resets = itertools.count()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        number = next(self.resets)
        observation, info = super().reset(seed=seed, options=options)
        return observation if seed is not None else [*observation, user(f"Reset {number}.")], info


class OpensOtherwiseById(SoundEnv):
    """Opens differently if the task is named by id."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        by_id = isinstance((options or {}).get("task"), str)
        return [*observation, user("As you asked.")] if by_id else observation, info


class PeeksAtGlobalRng(SoundEnv):
    """Draws from the module `random` and restores its state."""

    def start(self, task: Task) -> str:
        super().start(task)
        state = random.getstate()
        room = random.randrange(1000)
        random.setstate(state)
        return f"Room {room}. {task.prompt}"


class NumbersItself(SoundEnv):
    """Shows a number that is different in every instance."""

    numbers = itertools.count()

    def start(self, task: Task) -> str:
        self.number = next(self.numbers)
        return f"{super().start(task)} You are player {self.number}."


class CountsLooks(SoundEnv):
    """Answers depend on the number of looks in the process."""

    looks = itertools.count()

    def see(self, box: str) -> str:
        return f"{super().see(box)}, seen {next(self.looks)} times"


class OtherOnALoop(SoundEnv):
    """Answers differently on an event loop."""

    async def astep(self, action: Any) -> StepResult:
        result = await super().astep(action)
        return result._replace(observation=[*result.observation, user("(asynchronously)")])


class SharesStateWithSiblings(SoundEnv):
    """Keeps an episode's state on the class."""

    shared: list[str] = []

    def start(self, task: Task) -> str:
        opening = super().start(task)
        SharesStateWithSiblings.shared.clear()
        self.looked = SharesStateWithSiblings.shared
        return opening

    def see(self, box: str) -> str:
        return f"{super().see(box)} (look {len(self.looked)})"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": task.gold["content"]})
