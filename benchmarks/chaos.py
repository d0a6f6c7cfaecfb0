"""Rollouts under many failures: is every episode accounted for, is anything left behind, and what does it cost?

Five environments run at once in worker processes. 5 % of attempts crash in the environment, 5 % hang in it, 2 % of
generations never end, and each second one worker process of a random environment is killed. The base is the same run
without failures.

The explained time is that of the base, plus the time that failed attempts held their places (mostly waiting for time
limits) divided by the number of places. The time to restart processes does not count as explained.

    python -m benchmarks.chaos [--episodes 2000] [--envs guess,errand,sql,search,code]
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from agentgym.core.registry import make
from agentgym.rollout import Group, Limits, PlayedGroup, RolloutEngine
from agentgym.rollout.workers.processes import ProcessWorkers
from benchmarks._chaos import ChaosFactory, LaggingPolicy, Timed
from benchmarks._processes import COUNTED, adopt_orphans, difference, private_temporary_folder, settled, state
from benchmarks._report import Claim, argument_parser, write

LATENCY_S = (0.1, 0.5)
"""Minimum and maximum seconds of a generation."""
SETTLE_S = 30.0
EPISODE_S = {"guess": 2.6, "errand": 0.6, "sql": 1.8, "search": 2.1, "code": 1.3}
"""Approximate seconds per episode. Faster environments play more episodes, so that all rollouts end at about the same
time."""


@dataclass(frozen=True)
class Chaos:
    """Rates of failures, as shares of attempts and of generations."""

    crashes: float = 0.0
    hangs: float = 0.0
    stalls: float = 0.0
    kill_every_s: float | None = None


NONE = Chaos()
ALL = Chaos(crashes=0.05, hangs=0.05, stalls=0.02, kill_every_s=1.0)


def shares_of(envs: list[str], episodes: int) -> dict[str, int]:
    """Return the number of episodes of each environment."""
    rates = {env: 1 / EPISODE_S.get(env, 10.0) for env in envs}
    shares = {env: round(episodes * rate / sum(rates.values())) for env, rate in rates.items()}
    shares[envs[0]] += episodes - sum(shares.values())
    return shares


def groups_of(env_id: str, episodes: int) -> list[Group]:
    env = make(env_id)
    size = env.tasks.size("train") or episodes
    try:
        return [Group(env.tasks.get("train", index % size), index, 1, index // size) for index in range(episodes)]
    finally:
        env.close()


class Rollout:
    """One environment's rollout: its engine and the results."""

    def __init__(self, env_id: str, episodes: int, chaos: Chaos, options: argparse.Namespace):
        factory = ChaosFactory(env_id, {}, chaos.crashes, chaos.hangs, options.seed)
        self.env_id, self.groups, self.played = env_id, groups_of(env_id, episodes), list[PlayedGroup]()
        self.workers = ProcessWorkers(factory, options.at_once, processes=options.processes)
        self.timed = Timed(self.workers)
        limits = Limits(
            max_in_flight=options.at_once,
            generation_timeout_s=options.limit_s,
            reset_timeout_s=options.limit_s,
            step_timeout_s=options.limit_s,
        )
        policy = LaggingPolicy(LATENCY_S, chaos.stalls, options.seed)
        self.engine = RolloutEngine(factory, policy, limits, workers=self.timed)
        self.seconds = 0.0

    def play(self) -> None:
        began = time.monotonic()
        with self.engine:
            for played in self.engine.play(self.groups):
                self.played.append(played)
            self.seconds = time.monotonic() - began

    @property
    def row(self) -> dict[str, Any]:
        times = Counter((played.group.task.id, played.group.first) for played in self.played)
        trajectories = [trajectory for played in self.played for trajectory in played.trajectories]
        failed = [trajectory for trajectory in trajectories if trajectory.failed]
        return {
            "env": self.env_id,
            "episodes": len(self.groups),
            "delivered": len(trajectories),
            "missing": sum((group.task.id, group.first) not in times for group in self.groups),
            "more_than_once": sum(n > 1 for n in times.values()),
            "solved": sum(trajectory.success for trajectory in trajectories),
            "failed": len(failed),
            "failed_by": dict(Counter(f"{trajectory.component}/{trajectory.reason}" for trajectory in failed)),
            "unnamed_failures": sum(not trajectory.error or trajectory.component is None for trajectory in failed),
            "neither": sum(not trajectory.failed and not trajectory.success for trajectory in trajectories),
            "tries": self.engine.tally.tries,
            "failed_tries": dict(self.engine.tally.failed),
            "seconds": round(self.seconds, 2),
            "lost_place_s": round(sum(self.timed.lost_s), 1),
            "taking_place_s": round(sum(self.timed.taking_s), 1),
            "real_place_s": round(sum(self.timed.real_s), 1),
        }


@contextmanager
def killing(every_s: float | None, rollouts: list[Rollout], draw: random.Random) -> Iterator[list[int]]:
    """Kill one worker process every `every_s` seconds."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every_s):
            pids = draw.choice(rollouts).workers.pids
            if pids:
                killed.append(draw.choice(pids))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    if every_s is not None:
        killer.start()
    try:
        yield killed
    finally:
        over.set()
        if every_s is not None:
            killer.join()


def run(name: str, chaos: Chaos, options: argparse.Namespace) -> dict[str, Any]:
    """Play all environments at once."""
    shares = shares_of(options.envs.split(","), options.episodes)
    before = state()
    began = time.monotonic()
    rollouts = [Rollout(f"agentgym/{env}-v0", share, chaos, options) for env, share in shares.items()]
    threads = [threading.Thread(target=rollout.play) for rollout in rollouts]
    with killing(chaos.kill_every_s, rollouts, random.Random(options.seed)) as killed:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
    rows = [rollout.row for rollout in rollouts]
    del rollouts, threads
    after = settled(before, SETTLE_S)
    return {
        "run": name,
        "chaos": vars(chaos),
        "at_once": options.at_once,
        "processes": options.processes,
        "limit_s": options.limit_s,
        "latency_s": LATENCY_S,
        "killed": len(killed),
        "seconds": round(seconds, 2),
        "envs": rows,
        "left": difference(after, before),
    }


def explained_s(base: dict[str, Any], row: dict[str, Any], at_once: int) -> float:
    """Return the seconds of a rollout if failures cost no more than the time of the failed attempts."""
    return base["seconds"] + row["lost_place_s"] / at_once


def total(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def claims_of(base: dict[str, Any], chaos: dict[str, Any], at_once: int) -> list[Claim]:
    rows = chaos["envs"]
    shares = [explained_s(b, c, at_once) / c["seconds"] for b, c in zip(base["envs"], rows, strict=True)]
    bad = ("missing", "more_than_once", "unnamed_failures", "neither")
    return [
        Claim("chaos_episodes", total(rows, "episodes"), ">=", 2000),
        Claim("chaos_not_accounted_for", sum(total(rows, name) for name in bad), "<=", 0),
        Claim("chaos_failed_without_chaos", total(base["envs"], "failed"), "<=", 0),
        Claim("chaos_throughput_explained", round(sum(shares) / len(shares), 3), ">=", 0.75),
        Claim("chaos_throughput_explained_worst_env", round(min(shares), 3), ">=", 0.75),
        *(Claim(f"chaos_{name}_left", chaos["left"][name], "<=", 0) for name in COUNTED),
    ]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--envs", default="guess,errand,sql,search,code", help="web and swe work too, and take long")
    parser.add_argument("--at-once", type=int, default=12, help="episodes in flight of each environment")
    parser.add_argument("--processes", type=int, default=2, help="worker processes of each environment")
    parser.add_argument("--limit-s", type=float, default=8.0, help="every time limit")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    adopt_orphans()
    with private_temporary_folder():
        run("warm-up", NONE, argparse.Namespace(**{**vars(options), "episodes": 10}))
        base = run("base", NONE, options)
        print(base, file=sys.stderr)
        chaos = run("chaos", ALL, options)
        print(chaos, file=sys.stderr)
    write("chaos", [base, chaos], claims_of(base, chaos, options.at_once))


if __name__ == "__main__":
    main()
