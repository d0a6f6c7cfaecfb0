"""Runs episodes back to back, and counts the processes, mounts, files, descriptors and memory left behind.

python -m benchmarks.nothing_left
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentgym import make
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.tools.sandbox.pool import default_pool
from agentgym.tools.sandbox.registry import close_backends
from benchmarks._report import Claim, write

AT_ONCE = 8
SETTLE_S = 5.0
"""Time for closed sandboxes to disappear, and for new ones to be prepared."""


def state() -> dict[str, int]:
    """Count everything that this process could leave behind."""
    gc.collect()
    return {
        "processes": len(descendants(os.getpid())),
        "mounts": len(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()),
        "temporary_files": len(os.listdir(tempfile.gettempdir())),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "memory_kb": int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4,
    }


def descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found, waiting = set(), [pid]
    while waiting:
        parent = waiting.pop()
        children = {child for child, of in parents.items() if of == parent}
        found |= children
        waiting += children
    return found


def play(env: str, episodes: int) -> dict[str, float]:
    source = make(env)
    size = source.tasks.size("train") or episodes
    jobs = [Job(source.tasks.get("train", index % size), seed=index, attempt=index) for index in range(episodes)]
    source.close()
    started = time.perf_counter()
    limits = Limits(max_in_flight=AT_ONCE)
    done = asyncio.run(collect(jobs, ScriptedPolicy(), EnvFactory(env, {}), limits))
    seconds = time.perf_counter() - started
    return {"solved": sum(trajectory.outcome == 1.0 for trajectory in done), "seconds": round(seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", type=int, default=500)
    parser.add_argument("--swe", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Use a private folder, so that files left behind by others are not counted.
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        Path(folder).chmod(0o711)
        measure(options)


def measure(options: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for env, episodes in (("code", options.code), ("swe", options.swe)):
        # Create everything that is made once and kept (imports, caches, prepared sandboxes) before counting begins.
        play(env, 4 * AT_ONCE)
        time.sleep(SETTLE_S)
        before = state()
        result = play(env, episodes)
        time.sleep(SETTLE_S)
        after = state()
        left = {name: after[name] - before[name] for name in before}
        rows.append({"env": env, "episodes": episodes, **result, "before": before, "after": after, "left": left})
        print(rows[-1], file=sys.stderr)
    claims = []
    for row in rows:
        env, left = row["env"], row["left"]
        claims += [Claim(f"{env}_episodes_solved", row["solved"] / row["episodes"], ">=", 1.0)]
        claims += [
            Claim(f"{env}_{name}_left", left[name], "<=", 0)
            for name in ("processes", "mounts", "temporary_files", "descriptors")
        ]
        claims += [Claim(f"{env}_memory_growth_mb", round(left["memory_kb"] / 1024, 1), "<=", 32)]
    default_pool().close()
    close_backends()
    claims.append(Claim("processes_left_at_the_end", len(descendants(os.getpid())), "<=", 0))
    write("nothing_left", rows, claims)


if __name__ == "__main__":
    main()
