"""Web episodes while browser processes are killed at random moments: every episode is accounted for, nothing is left.

The rollout engine plays tasks of a bundled site, eight at a time; three in four by their solution, the others by
giving up at once, so that a wrong score in either direction shows. Meanwhile Chromium, the process of a page, or
Playwright's driver gets SIGKILL at moments that a seed draws. All of it runs in a separate process, which then ends.

    python -m benchmarks.web_kills
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import repeat
from multiprocessing import get_context
from typing import Any

from agentgym import make
from agentgym.env import Env
from agentgym.messages import ToolCall, text_of
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, RolloutEngine
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool
from agentgym.script import Move, ScriptedPlayer
from agentgym.task import Task
from agentgym.trajectory import Trajectory
from benchmarks._processes import adopt_orphans, is_browser, is_driver, is_renderer, living_below
from benchmarks._report import Claim, write

ENV = "agentgym/web-v0"
VICTIMS: Mapping[str, Callable[[str], bool]] = {"browser": is_browser, "page": is_renderer, "driver": is_driver}
WEIGHTS = (4, 2, 1)
QUITS_EVERY = 4
DELAY_S = 0.5
SETTLE_S = 10.0
HELPERS = "multiprocessing"
"""Marks the command lines of helpers that Python itself starts with a process pool."""


class CountingPool(EnvPool):
    """Counts the episodes begun, retries included."""

    begun = 0

    async def take(self, limit_s: float | None = None) -> Env:
        self.begun += 1
        return await super().take(limit_s)


class Killer(threading.Thread):
    """Kills a process of a random kind, shortly after given numbers of episodes have begun."""

    def __init__(self, pool: CountingPool, episodes: int, kills: int, seed: int):
        super().__init__(daemon=True)
        self.done: list[dict[str, Any]] = []
        self.over = threading.Event()
        self._pool, self._random = pool, random.Random(seed)
        self._moments = sorted(self._random.sample(range(1, episodes), kills))

    def run(self) -> None:
        for moment in self._moments:
            kind = self._random.choices(list(VICTIMS), WEIGHTS)[0]
            delay = self._random.uniform(0, DELAY_S)
            while self._pool.begun < moment:
                if self.over.wait(0.01):
                    return
            if self.over.wait(delay) or not self._kill(kind):
                return
            self.done.append({"after_episodes": moment, "kind": kind, "delay_s": round(delay, 3)})

    def _kill(self, kind: str) -> bool:
        """Kill one process of a kind, waiting for one to exist. Return False once the run is over."""
        while True:
            found = sorted(pid for pid, command in living_below(os.getpid()).items() if VICTIMS[kind](command))
            if found:
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(found), signal.SIGKILL)
                    return True
            if self.over.wait(0.02):
                return False


def some_quit(quitters: Collection[str]) -> ScriptedPlayer:
    """Return a player of the solution that immediately claims to have finished the tasks with these ids."""

    def play(env: Env, task: Task) -> Iterable[Move]:
        return repeat(ToolCall("finish")) if task.id in quitters else env.solution(task)

    return play


def quits(job: Job) -> bool:
    return job.seed % QUITS_EVERY == QUITS_EVERY - 1


def judged(job: Job, trajectory: Trajectory) -> str:
    """Judge whether a trajectory has the score that its policy earned."""
    if trajectory.failed:
        return "failed" if not trajectory.success else "wrong"
    return "right" if trajectory.outcome == float(not quits(job)) else "wrong"


def refused(trajectory: Trajectory) -> list[str]:
    """Return the replies to actions that could not be taken."""
    turns = [turn for turn in trajectory.turns if not turn.rewards["valid"]]
    return [text_of(turn.observation[-1])[:200] for turn in turns]


def play(options: argparse.Namespace) -> dict[str, Any]:
    kwargs = {"sites": [options.site]}
    factory = EnvFactory(ENV, kwargs)
    source = make(ENV, **kwargs)
    jobs = [Job(source.tasks.get("train", index), seed=index) for index in range(options.episodes)]
    source.close()
    policy = ScriptedPolicy(some_quit({job.task.id for job in jobs if quits(job)}), "scripted, some quit")
    pool = CountingPool(factory)
    killer = Killer(pool, options.episodes, options.kills, options.seed)
    limits = Limits(max_in_flight=options.at_once, retries=options.retries)
    started = time.perf_counter()
    killer.start()
    with RolloutEngine(factory, policy, limits, workers=LocalWorkers(pool)) as engine:
        found = {trajectory.id: trajectory for trajectory in engine.trajectories(jobs)}
    killer.over.set()
    killer.join()
    done = [found[job.id] for job in jobs]
    verdicts = Counter(map(judged, jobs, done))
    return {
        "episodes": len(jobs),
        "trajectories": len(done),
        **{verdict: verdicts[verdict] for verdict in ("right", "failed", "wrong")},
        "retries": pool.begun - len(jobs),
        "kills": Counter(kill["kind"] for kill in killer.done),
        "seconds": round(time.perf_counter() - started, 1),
        "errors": sorted({trajectory.error for trajectory in done if trajectory.error}),
        "wrong_trajectories": [
            {"id": trajectory.id, "outcome": trajectory.outcome, "refused": refused(trajectory)}
            for job, trajectory in zip(jobs, done, strict=True)
            if judged(job, trajectory) == "wrong"
        ],
        "moments": killer.done,
    }


def left() -> list[str]:
    """Return the processes still alive below this one after some time to die."""
    end = time.monotonic() + SETTLE_S
    while True:
        found = [command for command in living_below(os.getpid()).values() if HELPERS not in command]
        if not found or time.monotonic() > end:
            return [command[:80] for command in found]
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", default="shop")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--retries", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    adopt_orphans()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        result = process.submit(play, options).result()
    result["left"] = left()
    print(result, file=sys.stderr)
    claims = [
        Claim("web_kills_episodes_accounted", result["right"] + result["failed"], ">=", 300),
        Claim("web_kills_episodes_scored_right", result["right"], ">=", 300),
        Claim("web_kills_episodes_scored_wrong", result["wrong"], "<=", 0),
        Claim("web_kills_processes_killed", sum(result["kills"].values()), ">=", 30),
        Claim("web_kills_processes_left", len(result["left"]), "<=", 0),
    ]
    write("web_kills", [result], claims, packages=("playwright",))


if __name__ == "__main__":
    main()
