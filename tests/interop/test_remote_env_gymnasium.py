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


class Softmax:
    """Preferences for three moves, before and after the address is known; learns by REINFORCE."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._wishes: dict[bool, list[float]] = {False: [0.0] * 3, True: [0.0] * 3}

    def _odds(self, knows: bool) -> list[float]:
        powers = [math.exp(wish) for wish in self._wishes[knows]]
        return [power / sum(powers) for power in powers]

    def choose(self, knows: bool) -> int:
        return self._random.choices(range(3), self._odds(knows))[0]

    def learn(self, episode: list[tuple[bool, int]], advantage: float) -> None:
        for knows, choice in episode:
            odds, wishes = self._odds(knows), self._wishes[knows]
            for move in range(3):
                wishes[move] += 0.3 * advantage * ((move == choice) - odds[move])


class Courier:
    """The state of an agent in an episode of `errand`."""

    def __init__(self, opening: str):
        self.name = opening.partition("parcel of ")[2].partition(" to")[0]
        self.house = "Hill"
        self.moves: list[tuple[bool, int]] = []
        self.knows = False

    def action(self, move: int) -> str:
        self.moves.append((self.knows, move))
        name, arguments = (("chat", {}), ("fetch", {"name": self.name}), ("deliver", {"house": self.house}))[move]
        return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"

    def hear(self, text: str) -> None:
        if text.startswith("It goes to "):
            self.house, self.knows = text.removeprefix("It goes to ").removesuffix(" House."), True


def test_a_policy_gradient_over_a_vector_of_served_environments_learns(url: str):
    """The loop that trainers for Gymnasium have, with text where they have arrays: it learns to waste no turn."""
    makers = [partial(made, url, "errand")] * 4
    vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    policy, lengths = Softmax(0), []
    observations, _ = vector.reset(seed=0)
    couriers = [Courier(text_of(observation[-1])) for observation in observations]
    while len(lengths) < 160:
        actions = tuple(courier.action(policy.choose(courier.knows)) for courier in couriers)
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        for i, observation in enumerate(observations):
            if terminated[i] or truncated[i]:
                moves = couriers[i].moves
                lengths.append(len(moves))
                policy.learn(moves, float(terminated[i] and rewards[i] >= 1) - len(moves) / 4)
                couriers[i] = Courier(text_of(observation[-1]))  # of the next episode
            else:
                couriers[i].hear(text_of(observation[-1]))
    vector.close()
    assert statistics.mean(lengths[-40:]) < statistics.mean(lengths[:40]) - 1
