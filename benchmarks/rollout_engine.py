"""What the rollout engine costs per turn and per episode in flight, and what episodes in flight cost each other.

`turns`: 1, 100 and 10,000 episodes of an environment and a policy that do nothing are in flight at once, inline, in
threads and in worker processes. All episodes are reset first and wait; then their turns are timed until the last
episode has ended. Memory is that of the engine's process, with all episodes waiting, without worker processes.

`queueing`: 32 episodes that block for half a second each, of 256 that may run, with a time limit of 1.2 s a step: the
shared pool of an event loop (cores + 4 threads) takes 3 s for them, and lets most of them run out of time in its queue.
And 300 episodes of which 6 hang: how many of the others fail, and how long it takes next to the limit of the 6.

    python -m benchmarks.rollout_engine [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from benchmarks._report import Claim, argument_parser, write
from benchmarks._rollout_envs import Together, work

MODES = ("inline", "threads", "processes")
HANG_EVERY = 50
TURNS = {1: 4000, 100: 100, 10_000: 5}
"""Turns of each episode, by the number of episodes."""


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def turns(mode: str, episodes: int) -> dict[str, Any]:
    """Time the turns of so many episodes in flight."""
    each, seen = TURNS[episodes], dict[str, float]()

    def begin() -> None:
        seen.update(begun=time.perf_counter(), cpu=time.process_time(), kb=resident_kb())

    factory = EnvFactory("benchmarks._rollout_envs:Idle", {"turns": each})
    groups = work(episodes)
    limits = Limits(max_in_flight=episodes)
    with RolloutEngine(factory, Together(episodes, begin), limits, workers=mode) as engine:
        before, started = resident_kb(), time.perf_counter()
        found = engine.collect(groups)
        seconds, cpu = time.perf_counter() - seen["begun"], time.process_time() - seen["cpu"]
    assert all(group.trajectories[0].success for group in found)
    return {
        "opening_s": round(seen["begun"] - started, 3),
        "us_per_turn": round(seconds / episodes / each * 1e6, 1),
        "cpu_us_per_turn": round(cpu / episodes / each * 1e6, 1),
        "turns_per_s": round(episodes * each / seconds),
        "kb_per_episode": round((seen["kb"] - before) / episodes, 1) if episodes > 1 else None,
    }


def queueing(mode: str, case: str) -> dict[str, Any]:
    """Play episodes that block; some hang."""
    if case == "blocking":
        episodes, kwargs, limit_s, ideal_s = 32, {"seconds": 0.5}, 1.2, 0.5
    else:
        episodes, kwargs, limit_s, ideal_s = 300, {"seconds": 0.05, "hang_every": HANG_EVERY}, 2.0, 2.0
    factory = EnvFactory("benchmarks._rollout_envs:Busy", kwargs)
    hanging = {f"idle/train/{index}" for index in range(0, episodes, HANG_EVERY)} if case == "hanging" else set[str]()
    limits = Limits(max_in_flight=256, step_timeout_s=limit_s, retries=0)
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=mode) as engine:
        if mode == "processes":
            list(engine.play(work(1)[:0]))  # the processes start
        started = time.perf_counter()
        found = [group.trajectories[0] for group in engine.play(work(episodes))]
        seconds = time.perf_counter() - started
    failed = {trajectory.task_id for trajectory in found if trajectory.failed}
    return {
        "episodes": episodes,
        "hanging": len(hanging),
        "innocent_failures": len(failed - hanging),
        "hanging_failures": len(failed & hanging),
        "seconds": round(seconds, 3),
        "ideal_s": ideal_s,
    }


def pool_s() -> float:
    """Return how long the 32 blocking pieces of work take in an executor as large as asyncio's own."""
    with ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4)) as pool:
        started = time.perf_counter()
        list(pool.map(lambda _: time.sleep(0.5), range(32)))
        return time.perf_counter() - started


def in_a_process(what: str, mode: str, of: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "benchmarks.rollout_engine", "--measure", what, mode, of]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    row = {"what": what, "mode": mode, "of": of} | json.loads(done.stdout.splitlines()[-1])
    print(row, file=sys.stderr)
    return row


def median(rows: list[dict[str, Any]], mode: str, of: str, name: str) -> float:
    return statistics.median(row[name] for row in rows if (row["mode"], row["of"]) == (mode, of))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "MODE", "OF"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, mode, of = options.measure
        print(json.dumps(turns(mode, int(of)) if what == "turns" else queueing(mode, of)))
        return
    rows: list[dict[str, Any]] = [
        {"run": run} | in_a_process("turns", mode, str(episodes))
        for run in range(options.runs)
        for episodes in TURNS
        for mode in MODES
    ]
    rows += [
        {"run": run} | in_a_process("queueing", mode, case)
        for run in range(options.runs)
        for case in ("blocking", "hanging")
        for mode in ("threads", "processes")
    ]
    rows.append({"what": "queueing", "mode": "shared pool", "of": "blocking", "seconds": round(pool_s(), 3)})
    innocent = sum(row["innocent_failures"] for row in rows if "innocent_failures" in row)
    claims = [
        *(Claim(f"rollout_{mode}_us_per_turn", median(rows, mode, "100", "us_per_turn"), "<=", 500) for mode in MODES),
        *(Claim(f"rollout_{mode}_10000_over_100", over_100(rows, mode), "<=", 3.0) for mode in MODES),
        Claim(
            "rollout_kb_per_idle_episode",
            max(median(rows, mode, "10000", "kb_per_episode") for mode in MODES),
            "<=",
            64,
        ),
        Claim("rollout_innocent_failures", innocent, "<=", 0),
        Claim("rollout_blocking_over_ideal", over_ideal(rows, "blocking"), "<=", 1.5),
        Claim("rollout_hanging_over_ideal", over_ideal(rows, "hanging"), "<=", 1.5),
    ]
    write("rollout_engine", rows, claims)


def over_100(rows: list[dict[str, Any]], mode: str) -> float:
    """Return what a turn of 10,000 episodes costs, as a multiple of one of 100, in processor time."""
    return round(median(rows, mode, "10000", "cpu_us_per_turn") / median(rows, mode, "100", "cpu_us_per_turn"), 2)


def over_ideal(rows: list[dict[str, Any]], case: str) -> float:
    modes = ("threads", "processes")
    return round(max(median(rows, mode, case, "seconds") / median(rows, mode, case, "ideal_s") for mode in modes), 2)


if __name__ == "__main__":
    main()
