"""Vector environments, wrappers and a policy-gradient loop of Gymnasium run on served environments as they are."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

import agentgym
from agentgym.core.messages import text_of
from agentgym.interop.served.remote_env import RemoteEnv
from tests.served_envs import TOKEN, served_process

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_process("guess", "errand") as (address, _):
        yield address


def made(url: str, env: str = "guess") -> RemoteEnv:
    return RemoteEnv(url, env, token=TOKEN)


def guess(number: int) -> str:
    return f'<tool_call>\n{{"name": "guess", "arguments": {{"number": {number}}}}}\n</tool_call>'


def played(vector: Any) -> list[Any]:
    """All that two steps of a vector of environments show."""
    observations, _ = vector.reset(seed=[1, 2, 3])
    trace = [[list(observation) for observation in observations]]
    for number in (5, 6):
        observations, rewards, terminated, truncated, _ = vector.step(tuple(guess(number + i) for i in range(3)))
        trace.append([[list(observation) for observation in observations], [*rewards], [*terminated], [*truncated]])
    vector.close()
    return trace


def test_vector_environments_play_served_ones_as_native_ones(url: str):
    native = played(SyncVectorEnv([lambda: agentgym.make("guess")] * 3))
    assert played(SyncVectorEnv([partial(made, url)] * 3)) == native
    assert played(AsyncVectorEnv([partial(made, url)] * 3, shared_memory=False, context="spawn")) == native


def courier(opening: str) -> dict[str, Any]:
    """The state of an agent in an episode of `errand`."""
    return {
        "name": opening.partition("parcel of ")[2].partition(" to")[0],
        "house": "Hill",
        "moves": [],
        "knows": False,
    }


def action(agent: dict[str, Any], move: int) -> str:
    agent["moves"].append((agent["knows"], move))
    calls = (("chat", {}), ("fetch", {"name": agent["name"]}), ("deliver", {"house": agent["house"]}))
    name, arguments = calls[move]
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_a_policy_gradient_over_a_vector_of_served_environments_learns(url: str):
    """The loop that trainers for Gymnasium have, with text where they have arrays: it learns to waste no turn."""
    vector = SyncVectorEnv([partial(made, url, "errand")] * 4, autoreset_mode=AutoresetMode.SAME_STEP)
    dice, lengths, wishes = random.Random(0), [], {False: [0.0] * 3, True: [0.0] * 3}

    def odds(knows: bool) -> list[float]:
        powers = [math.exp(wish) for wish in wishes[knows]]
        return [power / sum(powers) for power in powers]

    observations, _ = vector.reset(seed=0)
    agents = [courier(text_of(observation[-1])) for observation in observations]
    while len(lengths) < 160:
        actions = tuple(action(agent, dice.choices(range(3), odds(agent["knows"]))[0]) for agent in agents)
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        for i, text in enumerate(text_of(observation[-1]) for observation in observations):
            if terminated[i] or truncated[i]:
                moves = agents[i]["moves"]
                lengths.append(len(moves))
                for knows, choice in moves:
                    for move, chance in enumerate(odds(knows)):
                        gain = float(terminated[i] and rewards[i] >= 1) - len(moves) / 4
                        wishes[knows][move] += 0.3 * gain * ((move == choice) - chance)
                agents[i] = courier(text)  # of the next episode
            elif text.startswith("It goes to "):
                agents[i] |= {"house": text.removeprefix("It goes to ").removesuffix(" House."), "knows": True}
    vector.close()
    assert statistics.mean(lengths[-40:]) < statistics.mean(lengths[:40]) - 1
