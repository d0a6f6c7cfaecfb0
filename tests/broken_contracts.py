"""Environments that each break one promise which `broken_envs` leaves whole, so that every check is seen to fail."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import gymnasium

from agentgym.messages import Message, user
from agentgym.steps import StepResult
from agentgym.task import Task
from tests.sound_envs import SoundEnv

Opening = tuple[list[Message], dict[str, Any]]


class WrongSpace(SoundEnv):
    """Declares observations that it never gives."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]


class FourValues(SoundEnv):
    """Still speaks Gym's old protocol."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class NumbersItself(SoundEnv):
    """Every instance has another name."""

    numbers = itertools.count()

    def start(self, task: Task) -> str:
        self.number = next(self.numbers)
        return f"{super().start(task)} You are player {self.number}."


class CountsLooks(SoundEnv):
    """What a box holds depends on how often anybody has looked."""

    looks = itertools.count()

    def see(self, box: str) -> str:
        return f"{super().see(box)}, seen {next(self.looks)} times"


class OtherOnALoop(SoundEnv):
    """Says more on an event loop."""

    async def astep(self, action: Any) -> StepResult:
        result = await super().astep(action)
        return result._replace(observation=[*result.observation, user("(asynchronously)")])


class KnowsItIsACopy(SoundEnv):
    """Plays otherwise where it was sent to."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    def start(self, task: Task) -> str:
        return f"{super().start(task)}{' I was copied.' if getattr(self, 'is_copy', False) else ''}"


class HidesATool(SoundEnv):
    """Lists only its first tool."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        return observation, info | {"tools": info["tools"][:1]}


class StepsBeforeReset(SoundEnv):
    """Begins an episode by itself."""

    def step(self, action: Any) -> StepResult:
        try:
            return super().step(action)
        except gymnasium.error.ResetNeeded:
            self.reset(seed=0)
            return super().step(action)
