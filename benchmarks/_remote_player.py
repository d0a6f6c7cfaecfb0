"""Our client of `served_steps_vs_openenv`: `URL TOKEN SECONDS SEED` plays the guessing game with `RemoteEnv`."""

from __future__ import annotations

import json
import sys
import time

from agentgym.interop.remote import RemoteEnv
from agentgym.messages import text_of


def play(url: str, token: str, seconds: float, seed: int) -> None:
    env = RemoteEnv(url, token=token)
    waits: list[float] = []

    def episode(number: int) -> None:
        observation, _ = env.reset(seed=number)
        low, high = 1, int(text_of(observation[-1]).partition("1 to ")[2].partition(".")[0])
        has_ended = False
        while not has_ended:
            middle = (low + high) // 2
            action = f'<tool_call>\n{{"name": "guess", "arguments": {{"number": {middle}}}}}\n</tool_call>'
            began = time.perf_counter()
            result = env.step(action)
            waits.append(time.perf_counter() - began)
            has_ended = result.terminated or result.truncated
            low, high = (middle + 1, high) if "higher" in text_of(result.observation[-1]) else (low, middle - 1)

    for number in range(5):
        episode(number)
    print("ready", flush=True)
    sys.stdin.readline()
    waits.clear()
    began = time.perf_counter()
    number = seed * 1_000_000
    while (spent := time.perf_counter() - began) < seconds:
        episode(number)
        number += 1
    print(json.dumps({"steps": len(waits), "seconds": spent, "waits": waits}), flush=True)
    env.close()


if __name__ == "__main__":
    play(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
