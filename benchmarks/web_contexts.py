"""Steps per second and memory of web episodes that run at the same time: 1, 4 and 8 browser contexts.

The rollout engine plays the solutions of tasks on a bundled site. Memory is the proportional share (PSS) of Chromium's
processes and Playwright's driver, taken in a separate pass, since looking it up takes time too. It includes one
context that is opened ahead. The cost of one more episode is the slope from 1 context to the most.

    python -m benchmarks.web_contexts
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
import time
from typing import Any

from agentgym import make
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from benchmarks._processes import living_below, memory_mb
from benchmarks._report import Claim, write

ENV = "agentgym/web-v0"
SAMPLE_S = 0.5


class Memory(threading.Thread):
    """Samples the memory of all processes below this one every half second while the block runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[float] = []
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.samples.append(sum(map(memory_mb, living_below(os.getpid()))))

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def play(site: str, episodes: int, contexts: int) -> dict[str, Any]:
    kwargs = {"sites": [site]}
    source = make(ENV, **kwargs)
    jobs = [Job(source.tasks.get("train", index), seed=index) for index in range(episodes)]
    source.close()
    started = time.perf_counter()
    limits = Limits(max_in_flight=contexts)
    done = asyncio.run(collect(jobs, ScriptedPolicy(), EnvFactory(ENV, kwargs), limits))
    seconds = time.perf_counter() - started
    steps = sum(len(trajectory.turns) for trajectory in done)
    return {
        "episodes": episodes,
        "solved": sum(trajectory.outcome == 1.0 for trajectory in done),
        "steps": steps,
        "steps_per_s": round(steps / seconds, 2),
        "episodes_per_s": round(episodes / seconds, 3),
    }


def measure(run: int, site: str, episodes: int, contexts: int) -> dict[str, Any]:
    values = {"run": run, "site": site, "contexts": contexts, **play(site, episodes, contexts)}
    with Memory() as memory:
        play(site, episodes, contexts)
    values["memory_mb"] = round(statistics.median(memory.samples), 1) if memory.samples else 0.0
    values["most_memory_mb"] = round(max(memory.samples, default=0.0), 1)
    print(values, file=sys.stderr)
    return values


def median(rows: list[dict[str, Any]], name: str, contexts: int) -> float:
    return statistics.median(row[name] for row in rows if row["contexts"] == contexts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", default="shop")
    parser.add_argument("--episodes", type=int, default=40, help="number of episodes per row")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--contexts", type=int, nargs="+", default=[1, 4, 8])
    options = parser.parse_args()
    # Start everything that is started once and kept before measuring begins.
    play(options.site, 2, 1)
    rows = [
        measure(run, options.site, options.episodes, contexts)
        for run in range(options.runs)
        for contexts in options.contexts
    ]
    few, many = min(options.contexts), max(options.contexts)
    each = (median(rows, "memory_mb", many) - median(rows, "memory_mb", few)) / max(many - few, 1)
    claims = [
        Claim("web_contexts_solved", sum(r["solved"] for r in rows) / sum(r["episodes"] for r in rows), ">=", 1),
        Claim("web_contexts_mb_per_episode", round(each, 1), "<=", 80),
        Claim(f"web_steps_per_s_{few}", median(rows, "steps_per_s", few), ">=", 10),
        Claim(f"web_steps_per_s_{many}", median(rows, "steps_per_s", many), ">=", 20),
    ]
    write("web_contexts", rows, claims, packages=("playwright",))


if __name__ == "__main__":
    main()
