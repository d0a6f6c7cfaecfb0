"""Policies without weights, and the scripts that play solutions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentgym.base.errors import ScriptFailed, UsageError
from agentgym.core.dialects.hermes import Hermes
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, text_of, user
from agentgym.core.policy import (
    ChatPolicy,
    FunctionPolicy,
    RandomPolicy,
    Script,
    ScriptedPolicy,
    Seat,
    solution_player,
    steps,
)
from agentgym.core.toolset import Toolset
from agentgym.envs.guess import GuessEnv

GUESS = ToolCall("guess", {"number": 5})


class Narrow(Hermes):
    """Cannot write anything."""

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        raise ValueError("cannot be written")


@pytest.fixture
def env() -> GuessEnv:
    env = GuessEnv()
    env.reset(seed=1)
    return env


def play(policy: ChatPolicy | ScriptedPolicy, env: Env, seed: int = 0, turns: int = 20) -> list[Action]:
    """Play one episode and return the actions."""
    observation, _ = env.reset(seed=1, options={"split": "train", "index": 3})
    player = policy.begin(env) if isinstance(policy, ScriptedPolicy) else policy.player(Seat.at(env, seed))
    actions: list[Action] = []
    for _ in range(turns):
        action = asyncio.run(player.act(observation))  # type: ignore[arg-type]
        if action is None:
            break
        actions.append(action)
        observation = env.step(action).observation
        if env.reason is not None:
            break
    return actions


def test_the_scripted_policy_plays_the_solution():
    class Short(GuessEnv):
        def solution(self, task: Any) -> Solution:
            yield "I shall try."

    class Unsolved(GuessEnv):
        solution = Env.solution

    for env in (GuessEnv(), GuessEnv(dialect=Narrow())):
        actions = play(ScriptedPolicy(), env)
        assert env.reason == "solved"
        assert {isinstance(action, str) for action in actions} == {not isinstance(env.dialect, Narrow)}
    assert play(ScriptedPolicy(), Short()) == ["I shall try."]
    with pytest.raises(UsageError, match="Unsolved has no solution"):
        play(ScriptedPolicy(), Unsolved())


def test_random_play_depends_only_on_its_seed():
    first, again, other = (play(RandomPolicy(), GuessEnv(), seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_function_policy_sees_the_whole_conversation_of_its_player_only():
    conversations: list[list[Message]] = []

    async def ask(conversation: list[Message]) -> str:
        conversations.append(list(conversation))
        return f"try {len(conversations)}"

    policy = FunctionPolicy("f", ask)
    assert play(policy, GuessEnv(), turns=2) == ["try 1", "try 2"]
    first, second = conversations
    assert second[: len(first)] == first
    assert second[len(first)] == {"role": "assistant", "content": "try 1"}
    assert len(second) == len(first) + 2
    asyncio.run(policy.player(Seat.at(GuessEnv(), 0)).act([user("hi")]))  # type: ignore[arg-type]
    assert len(conversations[2]) == 1


# Scripts.


def test_a_generator_is_sent_the_observation_of_each_move():
    observations: list[list[Message]] = []

    def moves() -> Solution:
        observations.append((yield "one"))
        observations.append((yield "two"))
        raise OSError("no disk")

    script = Script(moves())
    assert [script.next_move([user(text)]) for text in ("opening", "first")] == ["one", "two"]
    with pytest.raises(ScriptFailed, match="OSError: no disk"):
        script.next_move([user("second")])
    assert observations == [[user("first")], [user("second")]]


def test_steps_end_with_the_episode_or_with_the_moves(env: GuessEnv):
    *_, last = steps(env, solution_player(env, env.task))
    assert (last.terminated, last.info["is_success"]) == (True, True)
    env.reset(seed=1)
    assert len(list(steps(env, [GUESS] * 100))) <= env.max_turns
    env.reset(seed=1)
    assert list(steps(env, [])) == []
    (first,) = steps(env, [ToolCall("guess", {"number": -5})])
    assert "Error" in text_of(first.observation[-1])
    assert env.reason is None
