"""Misbehaving environments and policies fail only their own episodes and cannot change records."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from agentgym.base.errors import UsageError
from agentgym.core.closing import closed_after
from agentgym.core.endings import Reason
from agentgym.core.messages import Message, ToolCall
from agentgym.core.policy import FunctionPolicy, Generation, Seat
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from tests.counter_env import Counter, call, groups
from tests.rollout_cases import Factory, Letters, Speaker, play_groups
from tests.rows import each_row
from tests.waiting import eventually

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


@each_row(("name", "workers"), [("Unheeding", "threads"), ("Masking", "threads"), ("Masking", "inline")])
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


def test_leaving_and_closing_do_not_wait_for_a_policy_that_ignores_its_cancellation():
    engine = RolloutEngine(COUNTER, FunctionPolicy("deaf", _deaf), Limits(generation_timeout_s=None))

    def collect() -> None:
        with pytest.raises(UsageError, match="closed"):
            engine.collect(groups(2))

    playing = threading.Thread(target=collect)
    playing.start()
    assert eventually(lambda: "policy" in engine.waits.report())
    engine.close()
    playing.join(60)
    assert not playing.is_alive()


def test_a_blocking_solution_is_limited_and_blocks_no_other_episode():
    go_on = threading.Event()

    class Blocking(Counter):
        def solution(self, task: Any) -> Any:
            if task.id.endswith("/0"):
                go_on.wait()
            yield from super().solution(task)

    trajectories = play(Factory(build=Blocking), count=3, generation_timeout_s=1.5)
    go_on.set()
    answered = (Reason.ANSWERED, None)
    assert [(t.reason, t.component) for t in trajectories] == [POLICYS_FAULT, answered, answered]


@each_row("name", ["Stopping", "Exiting"])
def test_without_a_rollout_an_environment_that_stops_its_loop_stops_nothing(name: str):
    with closed_after(outside(name)()) as env:
        for seed in range(2):
            env.reset(seed=seed)
            assert env.step(call("done"))[2]


# Records.


def test_a_policy_that_changes_the_messages_it_sees_changes_no_record():
    def ask(messages: list[Message]) -> str | None:
        messages[-1]["content"] = "changed"
        return ADD if len(messages) < 6 else None

    [trajectory] = play(policy=FunctionPolicy("editor", ask))
    assert "changed" not in str(stored(trajectory))
    assert len(trajectory.turns) == 3


def test_a_policy_that_uses_its_message_again_changes_no_record():
    message = call("add", number=0)

    class Player:
        turn = 0

        async def act(self, observation: list[Message]) -> Any:
            self.turn += 1
            message["tool_calls"][0]["function"]["arguments"] = json.dumps({"number": self.turn})
            return message if self.turn < 4 else None

    [trajectory] = play(policy=Played(lambda seat: Player()))
    actions: list[Any] = [turn.action for turn in trajectory.turns[:3]]
    numbers = [action["tool_calls"][0]["function"]["arguments"] for action in actions]
    assert numbers == ['{"number": 1}', '{"number": 2}', '{"number": 3}']


def test_invalid_usage_is_dropped_without_failing_the_episode():
    class Player:
        usage: Any

        async def act(self, observation: list[Message]) -> None:
            return None

    cases: list[tuple[Any, dict[str, float]]] = [
        (None, {}),
        ([1], {}),
        ({"cost": nan}, {}),
        ({"tokens": object()}, {}),
        ({"tokens": 3, "cost": "much"}, {"tokens": 3}),
    ]
    for usage, expected in cases:
        player = Player()
        player.usage = usage
        [trajectory] = play(policy=Played(lambda seat, player=player: player))
        assert (trajectory.reason, stored(trajectory).usage) == (Reason.GAVE_UP, expected), usage


def test_details_cannot_replace_the_facts_of_the_engine():
    for name in ("rewards", "turn", "counts", "ending", "tools", "task"):

        class Telling(Counter):
            def details(self, name: str = name) -> dict[str, Any]:
                return {name: {"outcome": 1.0}}

        with pytest.raises(UsageError, match=name):
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
    "a tuple": lambda it: (it.ids, it.logprobs),
    "too few logprobs": lambda it: replace(it, logprobs=it.logprobs[1:]),
    "too many logprobs": lambda it: replace(it, logprobs=[*it.logprobs, -1.0]),
    "no logprobs": lambda it: replace(it, logprobs=None),
    "nan": lambda it: replace(it, logprobs=[nan] * len(it.ids)),
    "infinite": lambda it: replace(it, logprobs=[-inf] * len(it.ids)),
    "logprobs of numpy": lambda it: replace(it, logprobs=[*np.zeros(len(it.ids), dtype=np.float32)]),
    "ids of numpy": lambda it: replace(it, ids=[*map(np.int64, it.ids)]),
    "a negative id": lambda it: replace(it, ids=[-1, *it.ids[1:]]),
    "text": lambda it: replace(it, ids="x" * len(it.ids)),
    "too many tokens": lambda it: replace(it, ids=it.ids * 20, logprobs=it.logprobs * 20),
    "a negative version": lambda it: replace(it, version=-5),
    "no version": lambda it: replace(it, version=None),
}


def test_an_unusable_generation_is_a_failure_of_the_policy():
    for name, change in UNUSABLE.items():
        [trajectory] = play(policy=Changing(change), max_new_tokens=100)
        stored(trajectory)
        assert (trajectory.reason, trajectory.component) == POLICYS_FAULT, name
        assert trajectory.tokens is not None, name
        assert trajectory.tokens.completion_ids == [], name


def test_versions_of_one_episode_are_recorded_in_any_order():
    [trajectory] = play(policy=Changing(lambda it: replace(it, version=9 - it.version)))
    assert trajectory.tokens is not None
    assert trajectory.reason is Reason.ANSWERED
    assert [trajectory.tokens.versions[turn.span[0]] for turn in trajectory.turns if turn.span] == [9, 8]


def _raise(*_: Any) -> Any:
    raise KeyError("boom")


@each_row("place", ["open", "extend"])
def test_a_failing_codec_is_a_failure_of_the_policy(place: str):
    for broken in (_raise, lambda *_: None, lambda *_: [1.5], lambda *_: "text"):
        policy = Speaker([ADD, DONE])
        policy.codec = type("Broken", (Letters,), {place: broken})()
        [trajectory] = play(policy=policy)
        assert (trajectory.reason, trajectory.component) == POLICYS_FAULT
        assert trajectory.turns == [] or trajectory.tokens
        stored(trajectory)


def test_a_policy_without_a_player_is_a_failure_of_the_policy():
    [trajectory] = play(policy=Played(_raise))
    assert (trajectory.reason, trajectory.component) == POLICYS_FAULT
