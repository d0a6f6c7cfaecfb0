"""Environments that depend on more than their seed, or on less."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.engine.steps import Solution
from agentgym.messages import Message, ToolCall
from agentgym.task import Task
from tests.sound_envs import SoundEnv


class IgnoresSeed(SoundEnv):
    """Drops the seed."""

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        return super().reset(options=options)


class AlwaysTheSameTask(SoundEnv):
    """Takes the first task whatever the seed."""

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        return super().reset(seed=seed, options={"index": 0} | dict(options or {}))


class UsesGlobalRng(SoundEnv):
    """Draws from the module `random`."""

    def start(self, task: Task) -> str:
        super().start(task)
        return f"Room {random.randrange(1000)}. {task.prompt}"


class PeeksAtGlobalRng(SoundEnv):
    """Draws from the module `random` and covers its tracks."""

    def start(self, task: Task) -> str:
        super().start(task)
        kept = random.getstate()
        room = random.randrange(1000)
        random.setstate(kept)
        return f"Room {room}. {task.prompt}"


class SeedsGlobalRng(SoundEnv):
    """Makes itself deterministic at everyone's cost."""

    def start(self, task: Task) -> str:
        np.random.seed(7)
        return super().start(task)


class DependsOnHashSeed(SoundEnv):
    """Lists a set."""

    def start(self, task: Task) -> str:
        return f"{super().start(task)} Boxes hold: {', '.join(set(task.data['boxes'].values()))}."


class SurvivesReset(SoundEnv):
    """Sets up an episode's state in `__init__`."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.looked = []

    def start(self, task: Task) -> str:
        return f"Room {self.np_random.integers(1000)}. {task.prompt}"


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
