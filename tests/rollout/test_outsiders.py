"""Misbehaving environments and policies fail only their own episodes and cannot change records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.messages import Message, ToolCall
from agentgym.core.policy import FunctionPolicy, Generation, Seat
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory
from tests.counter_env import Counter, groups
from tests.rollout_cases import Factory, Letters, Speaker, play_groups
from tests.rows import each_row

COUNTER = Factory(build=Counter)
ADD = Counter().dialect.render("", [ToolCall("add", {"number": 1})], Counter.tools)
DONE = Counter().dialect.render("", [ToolCall("done")], Counter.tools)
POLICYS_FAULT = (Reason.INFRASTRUCTURE, "policy")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.core.foreign.UNHEARD_S", 0.05)


def outside(name: str) -> EnvFactory:
    return EnvFactory(f"tests.rollout.outside_envs:{name}", {})


def play(
    factory: EnvFactory = COUNTER, policy: Any = None, count: int = 1, workers: str = "threads", **limits: Any
) -> list[Trajectory]:
    return play_groups(factory, groups(count), policy, workers, **limits)


def stored(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory after a round trip through strict JSON."""
    return Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict(), allow_nan=False)))


class Played:
    """A policy with the given players."""

    name = "played"

    def __init__(self, player: Callable[[Seat], Any]):
        self.player = player


# Code that ignores its cancellation.


@each_row(("name", "workers"), [("Unheeding", "threads"), ("Masking", "inline")])
def test_a_limit_holds_for_an_environment_that_ignores_its_cancellation(name: str, workers: str):
    trajectories = play(outside(name), count=3, workers=workers, step_timeout_s=0.1)
    assert [(t.reason, t.component) for t in trajectories] == [(Reason.STEP_TIME, "step")] * 3


async def _deaf(messages: list[Message]) -> str:
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            continue


def test_a_limit_holds_for_a_policy_that_ignores_its_cancellation():
    [trajectory] = play(policy=FunctionPolicy("deaf", _deaf), generation_timeout_s=0.1)
    assert (trajectory.reason, trajectory.component) == POLICYS_FAULT
    assert "longer than its limit" in str(trajectory.error)


# Records.


def test_a_policy_that_changes_the_messages_it_sees_changes_no_record():
    def ask(messages: list[Message]) -> str | None:
        messages[-1]["content"] = "changed"
        return ADD if len(messages) < 6 else None

    [trajectory] = play(policy=FunctionPolicy("editor", ask))
    assert "changed" not in str(stored(trajectory))
    assert len(trajectory.turns) == 3


def test_details_cannot_replace_the_facts_of_the_engine():
    class Telling(Counter):
        def details(self) -> dict[str, Any]:
            return {"rewards": {"outcome": 1.0}}

    with pytest.raises(UsageError, match="rewards"):
        play(Factory(build=Telling))


# Token policies.


class Changing(Speaker):
    """Changes its generations."""

    def __init__(self, change: Callable[[Generation], Any]):
        super().__init__([ADD, DONE])
        self._change = change

    async def generate(self, ids: Any, max_new_tokens: int, session: str, **options: Any) -> Any:
        return self._change(await super().generate(ids, max_new_tokens, session, **options))


UNUSABLE: dict[str, Callable[[Generation], Any]] = {
    "nothing": lambda _: None,
    "no tokens": lambda it: replace(it, ids=[], logprobs=[]),
    "too few logprobs": lambda it: replace(it, logprobs=it.logprobs[1:]),
    "nan": lambda it: replace(it, logprobs=[nan] * len(it.ids)),
    "logprobs of numpy": lambda it: replace(it, logprobs=[*np.zeros(len(it.ids), dtype=np.float32)]),
    "ids of numpy": lambda it: replace(it, ids=[*map(np.int64, it.ids)]),
    "a negative id": lambda it: replace(it, ids=[-1, *it.ids[1:]]),
    "too many tokens": lambda it: replace(it, ids=it.ids * 20, logprobs=it.logprobs * 20),
    "no version": lambda it: replace(it, version=None),
}


def test_an_unusable_generation_is_a_failure_of_the_policy():
    for name, change in UNUSABLE.items():
        [trajectory] = play(policy=Changing(change), max_new_tokens=100)
        stored(trajectory)
        assert (trajectory.reason, trajectory.component) == POLICYS_FAULT, name
        assert trajectory.tokens is not None, name
        assert trajectory.tokens.completion_ids == [], name


def _raise(*_: Any) -> Any:
    raise KeyError("boom")


@each_row(("place", "broken"), [("open", _raise), ("extend", _raise), ("extend", lambda *_: [1.5])])
def test_a_failing_codec_is_a_failure_of_the_policy(place: str, broken: Any):
    policy = Speaker([ADD, DONE])
    policy.codec = type("Broken", (Letters,), {place: broken})()
    [trajectory] = play(policy=policy)
    assert (trajectory.reason, trajectory.component) == POLICYS_FAULT
    stored(trajectory)


def test_a_policy_without_a_player_is_a_failure_of_the_policy():
    [trajectory] = play(policy=Played(_raise))
    assert (trajectory.reason, trajectory.component) == POLICYS_FAULT
