"""Our client of `served_steps_vs_openenv`: `URL TOKEN SECONDS SEED` plays the guessing game with `RemoteEnv`."""

from __future__ import annotations

import sys
from contextlib import closing

from agentgym.core.messages import text_of
from agentgym.interop.served.remote_env import RemoteEnv
from benchmarks._halving import play


class Guessing:
    """The game with `RemoteEnv`: a guess is an assistant message with a tool call."""

    def __init__(self, env: RemoteEnv):
        self._env = env

    def begin(self, seed: int) -> int:
        observation, _ = self._env.reset(seed=seed)
        return int(text_of(observation[-1]).partition("1 to ")[2].partition(".")[0])

    def guess(self, number: int) -> tuple[str, bool]:
        call = {"type": "function", "function": {"name": "guess", "arguments": {"number": number}}}
        result = self._env.step({"role": "assistant", "content": "", "tool_calls": [call]})
        return text_of(result.observation[-1]), result.terminated or result.truncated


if __name__ == "__main__":
    url, token, seconds, seed = sys.argv[1:]
    with closing(RemoteEnv(url, token=token)) as env:
        play(Guessing(env), float(seconds), int(seed))
