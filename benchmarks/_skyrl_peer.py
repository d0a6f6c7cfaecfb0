"""The SkyRL-Gym side of `sql_steps_vs_skyrl`, run by the Python that has `skyrl-gym`. Does not import agentgym.

Reads one JSON request from standard input and prints one JSON answer.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata
from typing import Any


def env_for(request: dict[str, Any], gold: str, max_turns: int) -> Any:
    from skyrl_gym.envs.sql.env import SQLEnv, Text2SQLEnvConfig  # pyright: ignore[reportMissingImports]

    extras = {
        "db_id": request["db_id"],
        "reward_spec": {"ground_truth": gold},
        "data": "spider",
        "max_turns": max_turns,
    }
    return SQLEnv(Text2SQLEnvConfig(db_path=request["folder"]), extras)


def play(request: dict[str, Any], queries: list[str], gold: str) -> float:
    """Play one episode and return its reward."""
    env = env_for(request, gold, len(queries) + 1)
    env.init([{"role": "user", "content": "question"}])
    for sql in queries:
        env.step(f"<think>look</think><sql>{sql}</sql>")
    return float(env.step(f"<think>done</think><solution>{gold}</solution>")["reward"])


def measure(request: dict[str, Any]) -> dict[str, Any]:
    episodes = request["episodes"]
    play(request, *episodes[0])
    started = time.perf_counter()
    rewards = [play(request, queries, gold) for queries, gold in episodes]
    elapsed = time.perf_counter() - started
    steps = sum(len(queries) + 1 for queries, _ in episodes)
    return {"steps_per_s": steps / elapsed, "solved": sum(reward == 1.0 for reward in rewards), "of": len(rewards)}


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """Return the observation of one query, and the rewards of submitting each of some answers."""
    env = env_for(request, request["sql"], 9)
    env.init([{"role": "user", "content": "question"}])
    shown = env.step(f"<think>look</think><sql>{request['sql']}</sql>")["observations"][0]["content"]
    earned = {}
    for answer in request["answers"]:
        env = env_for(request, request["sql"], 9)
        env.init([{"role": "user", "content": "question"}])
        step = env.step(f"<think>done</think><solution>{answer}</solution>")
        earned[answer] = step["reward"]
    return {"shown": shown, "earned": earned}


def main() -> None:
    request = json.load(sys.stdin)
    answer = {"measure": measure, "probe": probe}[request["do"]](request)
    json.dump(answer | {"version": metadata.version("skyrl-gym")}, sys.stdout)


if __name__ == "__main__":
    main()
