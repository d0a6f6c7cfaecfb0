"""Compares the game "guess the number" on our base class with a plain `gymnasium.Env`, both played by bisection."""

from __future__ import annotations

import argparse
import gc
import re
import time
from collections.abc import Callable
from typing import Any

import gymnasium

import agentgym
from agentgym.endings import Reason
from agentgym.task import GeneratedTasks, Task
from benchmarks._report import Claim, interleaved, median_ratio, write

HIGHEST, MAX_TURNS = 50, 20
_NUMBER = re.compile(r"\[(\d+)\]")


def _task(split: str, index: int) -> Task:
    number = index % HIGHEST + 1
    return Task(id=f"bare/{split}/{index}", split=split, prompt=f"Guess 1..{HIGHEST}", gold={"number": number})


class OurGuess(agentgym.Env):
    max_turns = MAX_TURNS

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("bare", _task, {"train": None})

    def respond(self, text: str) -> str:
        found = _NUMBER.search(text)
        if found is None:
            raise agentgym.ToolError("Write your guess like [7].")
        guess, hidden = int(found[1]), self.task.gold["number"]
        if guess == hidden:
            self.reward("outcome", 1.0)
            self.finish(Reason.SOLVED)
            return "correct"
        return "higher" if guess < hidden else "lower"


class PlainGuess(gymnasium.Env[str, str]):
    observation_space = gymnasium.spaces.Text(100)
    action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.hidden = int(self.np_random.integers(1, HIGHEST + 1))
        self.turns = 0
        return f"Guess 1..{HIGHEST}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        found = _NUMBER.search(action)
        if found is None:
            return "Write your guess like [7].", 0.0, False, self.turns >= MAX_TURNS, {}
        guess = int(found[1])
        if guess == self.hidden:
            return "correct", 1.0, True, False, {}
        return "higher" if guess < self.hidden else "lower", 0.0, False, self.turns >= MAX_TURNS, {}


def play(env: gymnasium.Env[Any, Any], episodes: int, seeded: bool, text: Callable[[Any], str]) -> float:
    """Return steps per second of wall time, resets included."""
    steps = 0
    gc.collect()
    started = time.perf_counter()
    for seed in range(episodes):
        env.reset(seed=seed if seeded else None)
        low, high = 1, HIGHEST
        while True:
            middle = (low + high) // 2
            observation, _, terminated, truncated, _ = env.step(f"thinking... [{middle}]")
            steps += 1
            if terminated or truncated:
                break
            if text(observation) == "higher":
                low = middle + 1
            else:
                high = middle - 1
    return steps / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--episodes", type=int, default=3000)
    options = parser.parse_args()
    ours, plain = OurGuess(), PlainGuess()

    def content(observation: Any) -> str:
        return observation[0]["content"]

    rows = interleaved(
        options.runs,
        {
            "gymnasium, seeded resets": lambda: play(plain, options.episodes, True, str),
            "agentgym, seeded resets": lambda: play(ours, options.episodes, True, content),
            "gymnasium, seeded once": lambda: play(plain, options.episodes, False, str),
            "agentgym, seeded once": lambda: play(ours, options.episodes, False, content),
        },
    )
    seeded = median_ratio(rows, "agentgym, seeded resets", "gymnasium, seeded resets")
    unseeded = median_ratio(rows, "agentgym, seeded once", "gymnasium, seeded once")
    claims = [
        Claim("bare_env_vs_gymnasium", seeded, ">=", 0.6),
        Claim("bare_env_vs_gymnasium_target", seeded, ">=", 0.8),
        Claim("bare_env_vs_gymnasium_without_seeds", unseeded, ">=", 0.4),
    ]
    write("bare_env_vs_gymnasium", rows, claims, packages=("gymnasium", "numpy"))


if __name__ == "__main__":
    main()
