"""Environments and a policy that break, and workers that time each attempt. Worker processes import this."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any

from agentgym.core.endings import AnyReason
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import Message
from agentgym.core.policy import Player, ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.task import Task
from agentgym.rollout import EnvFactory
from agentgym.rollout.workers.base import EnvPlace, EpisodeOpening, PlayedTurn, Workers

FOREVER_S = 3600.0

_tries = count()


def _draw(what: str, seed: int, task: str) -> random.Random:
    """Return a random generator that differs between attempts at a task, in all processes."""
    return random.Random(f"{what}/{seed}/{task}/{os.getpid()}/{next(_tries)}")


class _Breaking:
    """A mixin for environments: some episodes crash or hang, at their start or their end."""

    shares: tuple[float, float] = (0.0, 0.0)
    chaos_seed = 0

    def start(self, task: Task) -> Any:
        draw = _draw("env", self.chaos_seed, task.id)
        fate, crashes, hangs = draw.random(), *self.shares
        self._fate = "crash" if fate < crashes else "hang" if fate < crashes + hangs else ""
        self._breaks_at_start = draw.random() < 0.5
        if self._breaks_at_start:
            self._meet()
        return super().start(task)  # type: ignore[misc]

    def grade(self) -> Any:
        self._meet()
        return super().grade()  # type: ignore[misc]

    def _meet(self) -> None:
        if self._fate == "hang":
            time.sleep(FOREVER_S)
        if self._fate == "crash":
            raise OSError("the environment crashed")


@dataclass(frozen=True)
class ChaosFactory(EnvFactory):
    """Makes environments, some of which break."""

    crashes: float = 0.0
    hangs: float = 0.0
    seed: int = 0

    def __call__(self) -> Env:
        return _breaking(self.env_id, (self.crashes, self.hangs), self.seed)(**self.kwargs)


@cache
def _breaking(env_id: str, shares: tuple[float, float], seed: int) -> type[Env]:
    env = make(env_id)
    env.close()
    return type(f"Breaking{type(env).__name__}", (_Breaking, type(env)), {"shares": shares, "chaos_seed": seed})


class LaggingPolicy(ScriptedPolicy):
    """Plays the solution at the speed of a model; some generations never end.

    Args:
        latency_s: Minimum and maximum seconds of a generation.
        stalls: Share of generations that never end.
        seed: Seed of both.
    """

    def __init__(self, latency_s: tuple[float, float], stalls: float, seed: int):
        super().__init__()
        self.latency_s, self.stalls, self.seed = latency_s, stalls, seed

    def begin(self, env: Env) -> Player:
        return _Lagging(super().begin(env), self, _draw("policy", self.seed, env.task.id))


class _Lagging:
    def __init__(self, player: Player, policy: LaggingPolicy, draw: random.Random):
        self._player, self._policy, self._draw = player, policy, draw

    async def act(self, observation: list[Message]) -> Action | None:
        stalls = self._draw.random() < self._policy.stalls
        await asyncio.sleep(FOREVER_S if stalls else self._draw.uniform(*self._policy.latency_s))
        return await self._player.act(observation)


@dataclass
class Timed:
    """Workers that record the seconds of failed and of other attempts, including the wait for a place."""

    workers: Workers
    real_s: list[float] = field(default_factory=list)
    lost_s: list[float] = field(default_factory=list)
    taking_s: list[float] = field(default_factory=list)
    """Seconds spent waiting for a place, a part of both."""

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        return await self.workers.at_once(most, limit_s)

    async def take(self, limit_s: float | None) -> EnvPlace:
        began = time.monotonic()
        try:
            place = await self.workers.take(limit_s)
        except BaseException:
            self.lost_s.append(time.monotonic() - began)
            raise
        self.taking_s.append(time.monotonic() - began)
        return _TimedPlace(place, self, began)

    def isolated(self) -> Timed:
        return replace(self, workers=self.workers.isolated())  # with the same lists

    async def close(self) -> None:
        await self.workers.close()


@dataclass
class _TimedPlace:
    place: EnvPlace
    of: Timed
    began: float

    async def reset(self, seed: int, task: Task, training_step: int | None) -> EpisodeOpening:
        return await self.place.reset(seed, task, training_step)

    async def step(self, action: Action, tool_limit_s: float | None) -> PlayedTurn:
        return await self.place.step(action, tool_limit_s)

    async def interrupt(self, reason: AnyReason) -> PlayedTurn:
        return await self.place.interrupt(reason)

    async def script(self, policy: ScriptedPolicy) -> Player:
        return await self.place.script(policy)

    async def give_back(self) -> None:
        await self.place.give_back()
        self.of.real_s.append(time.monotonic() - self.began)

    async def discard(self, *, stuck: bool) -> None:
        await self.place.discard(stuck=stuck)
        self.of.lost_s.append(time.monotonic() - self.began)
