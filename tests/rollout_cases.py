"""Small rollouts for tests: jobs of the guessing game, environments of any class, and a token policy over letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.core.env import Env
from agentgym.core.messages import Message, text_of
from agentgym.core.policy import Generation, ScriptedPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import EnvFactory, Group, Job, Limits, RolloutEngine
from agentgym.rollout.streams import play_jobs

END = 0
"""Ends a message in the tokens of `Letters`."""


@dataclass(frozen=True)
class Factory(EnvFactory):
    """Makes environments of a class that is not importable."""

    env_id: str = "agentgym/guess-v0"
    kwargs: dict[str, Any] = field(default_factory=dict)
    build: Callable[..., Env] = GuessEnv

    def __call__(self) -> Env:
        return self.build(**self.kwargs)


def jobs(count: int, attempts: int = 1) -> list[Job]:
    source = GuessEnv.default_tasks()
    return [Job(source.get("train", i), seed=i, attempt=a) for i in range(count) for a in range(attempts)]


def play_groups(
    factory: EnvFactory, work: Sequence[Group], policy: Any = None, workers: Any = "threads", **limits: Any
) -> list[Trajectory]:
    """Return the trajectories of groups, without retries by default."""
    bounds = Limits(**{"retries": 0, **limits})
    with RolloutEngine(factory, policy or ScriptedPolicy(), bounds, workers=workers) as engine:
        return [trajectory for group in engine.collect(work) for trajectory in group.trajectories]


def run(work: Sequence[Job], policy: Any, factory: EnvFactory | None = None, **limits: Any) -> list[Trajectory]:
    return asyncio.run(play_jobs(work, policy, factory or Factory(), Limits(**limits)))


class Letters:
    """A codec over code points: a character's id is its code point plus two; 1 starts a message, 0 ends it."""

    def open(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        return [*self._written(messages), 1]

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        return [*([] if last_id == END else [END]), *self._written(observation), 1]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i - 2) for i in ids if i > 1)

    def _written(self, messages: Sequence[Message]) -> list[int]:
        return [i for m in messages for i in (1, *(ord(c) + 2 for c in text_of(m)), END)]


class Speaker:
    """A token policy that samples fixed lines, and asserts that each request extends the previous one."""

    name = "speaker"

    def __init__(self, lines: Sequence[str], context: int = 100_000):
        self.codec, self.context, self.lines = Letters(), context, lines
        self.history: dict[str, list[int]] = {}
        self.turn: dict[str, int] = {}

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        before = self.history.get(session, [])
        assert list(ids[: len(before)]) == before
        turn = self.turn[session] = self.turn.get(session, -1) + 1
        sampled = [ord(c) + 2 for c in self.lines[turn % len(self.lines)]] + [END]
        sampled = sampled[:max_new_tokens]
        self.history[session] = [*ids, *sampled]
        return Generation(
            sampled, [-float(turn + 1)] * len(sampled), "stop" if sampled[-1] == END else "length", version=turn
        )

    def release(self, session: str) -> None:
        self.turn.pop(session, None)
        self.history.pop(session, None)
