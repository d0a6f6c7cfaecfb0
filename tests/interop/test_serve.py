"""Our environments on a server: `RemoteEnv` and plain requests get the same data as from `Env`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from agentgym.core.messages import assistant
from tests.interop.guarantees import DONE, SPLIT, Guarantee, Moves, Seen, hold, read, seen_in_env
from tests.interop.peers import by_task
from tests.interop.probe_env import PROBE
from tests.rows import each_row
from tests.served_envs import Served, post, served

ARGUMENTS = {"dialect": "native"}


class Driver:
    """Plays on one server, a session for each episode."""

    def __init__(self, adapter: str, package: str, play: Callable[[Served, Moves, int, int], Seen]):
        self.adapter, self.package, self._play = adapter, package, play

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        indices = [index for index in range(len(episodes)) for _ in range(attempts)]
        with served(PROBE) as server, ThreadPoolExecutor(len(indices)) as pool:
            results = list(pool.map(lambda index: self._play(server, episodes[index], seed + index, index), indices))
        return by_task(results, attempts)


def in_remote_env(server: Served, moves: Moves, seed: int, index: int) -> Seen:
    env = server.env(**ARGUMENTS)
    try:
        return seen_in_env(env, moves, seed, index)
    finally:
        env.close()


def in_requests(server: Served, moves: Moves, seed: int, index: int) -> Seen:
    """Play with plain requests; a model that is done says so until the episode is over."""
    result, rewards = Seen(), []
    session = f"/sessions/{post(server, '/sessions', arguments=ARGUMENTS).json()['session']}"
    reply = post(server, f"{session}/reset", seed=seed, options={"split": SPLIT, "index": index})
    actions = [assistant("", [move]) for move in moves]
    while "error" not in (content := reply.json()):
        read(result, content["observation"])
        if "reward" in content:
            rewards.append(content["reward"])
            if content["terminated"] or content["truncated"]:
                result.turn_rewards, result.reward, result.ending = rewards, sum(rewards), content["info"]["ending"]
                return result
        reply = post(server, f"{session}/step", action=actions.pop(0) if actions else DONE)
    result.error = f"{reply.status_code} {content['error']['kind']}"
    return result


DRIVERS: dict[str, Any] = {
    "remote": Driver("remote", "websockets", in_remote_env),
    "serve": Driver("serve", "httpx", in_requests),
}


@each_row("guarantee", Guarantee)
@each_row("adapter", DRIVERS)
def test_guarantees(adapter: str, guarantee: Guarantee):
    hold(DRIVERS[adapter], guarantee)
