from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentgym.dialects.hermes import Hermes
from agentgym.engine.spaces import Action
from agentgym.env import Env
from agentgym.envs.guess import GuessEnv
from agentgym.errors import UsageError
from agentgym.messages import Message, ToolCall, user
from agentgym.policy import ChatPolicy, FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy, TokenPolicy
from agentgym.seat import Seat
from agentgym.toolset import Toolset


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


def test_policies_are_told_apart_by_what_they_speak():
    for policy in (RandomPolicy(), SilentPolicy(), FunctionPolicy("f", lambda messages: None)):
        assert isinstance(policy, ChatPolicy)
        assert not isinstance(policy, TokenPolicy)
    assert not isinstance(ScriptedPolicy(), ChatPolicy | TokenPolicy)


def test_the_scripted_policy_solves_the_task():
    env = GuessEnv()
    play(ScriptedPolicy(), env)
    assert env.reason == "solved"


def test_the_scripted_policy_gives_up_when_its_script_ends():
    class Short(GuessEnv):
        def solution(self, task: Any):
            yield "I shall try."

    assert play(ScriptedPolicy(), Short()) == ["I shall try."]


def test_a_call_that_the_dialect_cannot_write_is_sent_as_a_message():
    class Narrow(Hermes):
        def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
            raise ValueError("cannot be written")

    env = GuessEnv(dialect=Narrow())
    actions = play(ScriptedPolicy(), env)
    assert env.reason == "solved"
    assert all(not isinstance(action, str) for action in actions)


def test_an_environment_without_a_solution_says_so():
    class Unsolved(GuessEnv):
        solution = Env.solution

    with pytest.raises(UsageError, match="Unsolved has no solution"):
        play(ScriptedPolicy(), Unsolved())


def test_random_play_depends_on_its_seed_alone():
    assert play(RandomPolicy(), GuessEnv(), seed=1) == play(RandomPolicy(), GuessEnv(), seed=1)
    assert play(RandomPolicy(), GuessEnv(), seed=1) != play(RandomPolicy(), GuessEnv(), seed=2)


def test_a_function_sees_the_whole_conversation_and_may_be_async():
    seen: list[list[Message]] = []

    async def ask(conversation: list[Message]) -> str:
        seen.append(list(conversation))
        return f"try {len(seen)}"

    actions = play(FunctionPolicy("f", ask), GuessEnv(), turns=2)
    assert actions == ["try 1", "try 2"]
    first, second = seen
    assert second[: len(first)] == first
    assert second[len(first)] == {"role": "assistant", "content": "try 1"}
    assert len(second) == len(first) + 2


def test_players_of_one_function_share_no_conversation():
    lengths: list[int] = []
    policy = FunctionPolicy("f", lambda conversation: lengths.append(len(conversation)))
    for _ in range(2):
        asyncio.run(policy.player(Seat.at(GuessEnv(), 0)).act([user("hi")]))  # type: ignore[arg-type]
    assert lengths == [1, 1]
