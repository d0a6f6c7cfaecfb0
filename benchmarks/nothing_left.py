"""Play many episodes and count the processes, threads, mounts, files, descriptors and memory left behind.

Rollout engines play each environment in threads and in worker processes, fast ones 10,000 times. Earlier results of
other environments are kept.

    python -m benchmarks.nothing_left [--only guess,sql] [--workers threads] [--guess 10000 … --code 2000 --swe 100]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from agentgym import make
from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, RolloutEngine
from agentgym.tools.browser.pool import close_pools
from agentgym.tools.database.pool import default_pool as default_databases
from agentgym.tools.sandbox.pool import default_pool
from agentgym.tools.sandbox.registry import close_backends
from benchmarks._processes import COUNTED, difference, living_below, private_temporary_folder, settled, state
from benchmarks._report import Claim, argument_parser, earlier, write

AT_ONCE = 8
WARM_UP = 1_000
"""Maximum number of episodes before counting starts."""
SETTLE_S = 20.0
"""Time for closed sandboxes and idle threads to disappear, and for new sandboxes to be prepared."""
EPISODES = {"guess": 10_000, "errand": 10_000, "sql": 10_000, "search": 10_000, "code": 2_000, "swe": 100, "web": 40}
WORKERS = ("threads", "processes")


def jobs(env_id: str, episodes: int) -> Iterator[Job]:
    env = make(env_id)
    tasks = env.tasks
    size = tasks.size("train") or episodes
    env.close()
    return (Job(tasks.get("train", index % size), seed=index, attempt=index) for index in range(episodes))


def play(env: str, workers: str, episodes: int) -> dict[str, float]:
    started = time.perf_counter()
    limits = Limits(max_in_flight=AT_ONCE)
    with RolloutEngine(EnvFactory(env, {}), ScriptedPolicy(), limits, workers=workers) as engine:
        solved = sum(trajectory.outcome == 1.0 for trajectory in engine.trajectories(jobs(env, episodes)))
    return {"solved": solved, "seconds": round(time.perf_counter() - started, 1)}


def measured(env: str, workers: str, episodes: int) -> dict[str, Any]:
    # Before counting starts, create everything that is kept: imports, prepared sandboxes, full caches of tasks.
    warm_up = min(max(4 * AT_ONCE, episodes // 4), WARM_UP)
    play(env, workers, warm_up)
    time.sleep(SETTLE_S)
    before = state()
    result = play(env, workers, episodes)
    after = settled(before, SETTLE_S)
    leftovers = difference(after, before)
    row = {
        "env": env,
        "workers": workers,
        "warm_up": warm_up,
        "episodes": episodes,
        **result,
        "before": before,
        "after": after,
    }
    print(row | {"left": leftovers}, file=sys.stderr)
    return row | {"left": leftovers}


def not_again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the result file for other environments and workers."""
    again = {(row["env"], row["workers"]) for row in rows}
    return [row for row in earlier("nothing_left")["rows"] if (row["env"], row["workers"]) not in again]


def claims_of(rows: list[dict[str, Any]]) -> list[Claim]:
    claims: list[Claim] = []
    for row in rows:
        name, leftovers = f"{row['env']}_{row['workers']}", row["left"]
        claims += [Claim(f"{name}_episodes_solved", row["solved"] / row["episodes"], ">=", 1.0)]
        claims += [Claim(f"{name}_{what}_left", leftovers[what], "<=", 0) for what in COUNTED]
        claims += [Claim(f"{name}_memory_growth_mb", round(leftovers["memory_kb"] / 1024, 1), "<=", 32)]
    return claims


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", default=",".join(EPISODES))
    parser.add_argument("--workers", default=",".join(WORKERS))
    for env, episodes in EPISODES.items():
        parser.add_argument(f"--{env}", type=int, default=episodes, help="episodes")
    options = parser.parse_args()
    with private_temporary_folder():
        rows = [
            measured(env, workers, getattr(options, env))
            for env in options.only.split(",")
            for workers in options.workers.split(",")
        ]
        close_pools()
        default_databases().close()
        default_pool().close()
        close_backends()
        rows = [*not_again(rows), *rows]
        claims = [*claims_of(rows), Claim("processes_left_at_the_end", len(living_below(os.getpid())), "<=", 0)]
    write("nothing_left", rows, claims)


if __name__ == "__main__":
    main()
