"""Tests whether public data sets can be used as published: every entry makes a task that its own gold solves.

For each of seven data sets, a small one in the same layout is made up (`_published.py`), read through the environment
with the settings of docs/data.md, and solved by the environment's solution. With `--real NAME=PATH`, the data set
itself is read and solved as well: entries left out are counted by reason, and up to `--limit` tasks are played.

    python -m benchmarks.data_sets_load_as_published [--real MBPP=PATH] [--real Spider=PATH] [--limit 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.endings import Reason
from agentgym.policy import ScriptedPolicy
from agentgym.registry import make
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.settings import parse_settings
from agentgym.task import iterate
from agentgym.task_files.left_out import LeavesOut, Why
from benchmarks._published import WRITERS
from benchmarks._report import Claim, write

_ROWS = "data/test-00000-of-00001.parquet"
SETTINGS = {
    "Spider": ("sql", ["folder=spider_data"]),
    "KaggleDBQA": ("sql", ["folder=KaggleDBQA"]),
    "MBPP": ("code", ["file=mbpp/mbpp.jsonl"]),
    "HotpotQA": ("search", ["folder=hotpot_dev_distractor_v1.json"]),
    "MuSiQue": ("search", ["folder=musique_ans_v1.0_dev.jsonl"]),
    "SQuAD": ("search", ["folder=dev-v2.0.json"]),
    "SWE-bench Lite": ("swe", [f"file={_ROWS}", "repositories=repositories", "environments=environments"]),
}
"""Environment and settings of each data set, as in docs/data.md."""


def solved_by_gold(kind: str, kwargs: dict[str, Any], limit: int | None = None) -> tuple[int, int, int]:
    """Play the solutions of tasks; return the number of tasks, of solved ones, and of broken ones."""
    env = make(kind, **kwargs)
    source = env.tasks
    env.close()
    tasks = list(chain.from_iterable(iterate(source, split) for split in source.splits))[:limit]
    jobs = [Job(task, seed=0) for task in tasks]
    done = asyncio.run(collect(jobs, ScriptedPolicy(), EnvFactory(kind, kwargs), Limits(max_in_flight=8)))
    for trajectory in done:
        if not trajectory.success:
            print(f"{trajectory.task_id}: {trajectory.reason} {trajectory.error or ''}", file=sys.stderr)
    return len(done), sum(t.success for t in done), sum(t.reason is Reason.BROKEN_TASK for t in done)


def measure(name: str, data: str, kwargs: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
    """Read and solve one data set."""
    kind = SETTINGS[name][0]
    started = time.perf_counter()
    env = make(kind, **kwargs)
    read_s = time.perf_counter() - started
    tasks = sum(env.tasks.size(split) or 0 for split in env.tasks.splits)
    left_out = env.tasks.left_out if isinstance(env.tasks, LeavesOut) else ()
    env.close()
    played, solved, broken = solved_by_gold(kind, kwargs, limit)
    row: dict[str, Any] = {"name": name, "data": data, "tasks": tasks, "read_s": round(read_s, 2)}
    row |= {"left_out": dict(Counter(entry.why.value for entry in left_out))}
    row |= {"played": played, "solved": solved, "broken_tasks": broken}
    print(row, file=sys.stderr)
    return row


def is_usable(row: dict[str, Any]) -> bool:
    """Return whether every entry makes a task that its gold solves. Duplicate entries are no fault."""
    return set(row["left_out"]) <= {Why.REPEATED.value} and row["played"] == row["solved"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--real",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a real data set; may be repeated",
    )
    parser.add_argument("--limit", type=int, default=1000, help="maximum number of tasks to play per real data set")
    options = parser.parse_args()
    real = [(name, Path(path).absolute()) for name, _, path in (each.partition("=") for each in options.real)]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        os.chdir(folder)
        for name, written in WRITERS.items():
            written(Path(folder))
            rows.append(measure(name, "made up", parse_settings(SETTINGS[name][1])))
    usable = sum(map(is_usable, rows))
    for name, path in real:
        argument = SETTINGS[name][1][0].partition("=")[0]
        rows.append(measure(name, "real", {argument: str(path)}, options.limit))
    write("data_sets_load_as_published", rows, [Claim("data_sets_load_as_published", usable, ">=", len(WRITERS))])


if __name__ == "__main__":
    main()
