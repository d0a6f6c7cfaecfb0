"""The cost of 64 concurrent episodes that take their tasks from one file, compared with reading the file once.

Files in the layouts of HotpotQA, MBPP and Spider are made up, large enough to take seconds to read. In a separate
process each, the file is read once (`read`), the rollout engine plays 64 episodes with the tasks read (`given`), and
with environments that are given the name of the file (`file`). An episode is opened and given up at once. The
comparison covers the processor time of `file`, minus that of the episodes themselves, and the peak memory. Wall-clock
times and the longest stall of the event loop are reported as well.

    python -m benchmarks.file_source_overhead [--runs 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from agentgym.env import Env
from agentgym.messages import Message
from agentgym.policy import FunctionPolicy
from agentgym.registry import make
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.task import TaskSource
from benchmarks._report import Claim, write

EPISODES = 64
TICK_S = 0.005
WORDS = [f"word{number}" for number in range(5000)]


def hotpot(folder: Path, questions: int = 5000) -> str:
    draw = Random(0)
    entries = []
    for number in range(questions):
        titles = [f"Page {draw.randrange(questions * 4)}" for _ in range(10)]
        context = [[title, [" ".join(draw.choices(WORDS, k=12)) for _ in range(4)]] for title in dict.fromkeys(titles)]
        facts = [[context[0][0], 0], [context[1][0], 1]]
        entries.append({"_id": f"q{number}", "question": f"What joins {number}?", "answer": WORDS[number % 5000]})
        entries[-1] |= {"context": context, "supporting_facts": facts, "type": "bridge"}
    (folder / "hotpot_train_v1.1.json").write_text(json.dumps(entries))
    return "hotpot_train_v1.1.json"


def mbpp(folder: Path, problems: int = 3000) -> str:
    with (folder / "mbpp.jsonl").open("w") as file:
        for number in range(problems):
            body = "".join(f"    if x == {case}:\n        return {case * number}\n" for case in range(6))
            entry = {
                "task_id": 10_000 + number,
                "text": f"Write function {number}.",
                "code": f"def f(x):\n{body}    return x\n",
            }
            entry["test_list"] = [f"assert f({case}) == {case * number}" for case in range(3)]
            file.write(json.dumps(entry) + "\n")
    return "mbpp.jsonl"


def spider(folder: Path, questions: int = 20_000) -> str:
    (folder / "spider" / "database" / "shop").mkdir(parents=True)
    database = sqlite3.connect(folder / "spider" / "database" / "shop" / "shop.sqlite")
    database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, price INTEGER)")
    database.executemany("INSERT INTO items VALUES (?, ?)", [(number, number + 2) for number in range(100)])
    database.commit()
    database.close()
    entries = [
        {"db_id": "shop", "question": f"Which price has item {number}?"}
        | {"query": f"SELECT price + {number} FROM items WHERE id < 9"}
        for number in range(questions)
    ]
    (folder / "spider" / "train_spider.json").write_text(json.dumps(entries))
    return "spider"


FILES: Mapping[str, tuple[str, Callable[[Path], str]]] = {
    "search": ("folder", hotpot),
    "code": ("file", mbpp),
    "sql": ("folder", spider),
}


async def give_up(conversation: list[Message]) -> None:
    return None


async def ticking(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(TICK_S)
        gaps.append((now := time.perf_counter()) - last - TICK_S)
        last = now


def tasks_of(env: str, kwargs: Mapping[str, Any]) -> TaskSource:
    made: Env = make(env, **kwargs)
    made.close()
    return made.tasks


def peak_mb() -> float:
    """Return this process's peak memory in MB; `getrusage` would include its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def play(env: str, kwargs: dict[str, Any], source: TaskSource) -> float:
    """Play the episodes; return the longest stall of the event loop, in seconds."""
    gaps = [0.0]

    async def all_of_them() -> None:
        ticker = asyncio.create_task(ticking(gaps))
        jobs = [Job(source.get("train", index), seed=index) for index in range(EPISODES)]
        policy, limits = FunctionPolicy("gives up", give_up), Limits(max_in_flight=EPISODES, retries=0)
        found = await collect(jobs, policy, EnvFactory(f"agentgym/{env}-v0", kwargs), limits)
        assert all(trajectory.error is None for trajectory in found), found[0].error
        ticker.cancel()

    asyncio.run(all_of_them())
    return max(gaps)


class Stopwatch:
    """Measures wall-clock and processor time since the last look."""

    def __init__(self) -> None:
        self._last = self._now()

    def look(self, name: str) -> dict[str, float]:
        before, self._last = self._last, self._now()
        return {f"{name}_s": self._last[0] - before[0], f"{name}_cpu_s": self._last[1] - before[1]}

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()


def measure(env: str, what: str, path: str) -> dict[str, Any]:
    """Measure one thing in this process, which has not read anything yet."""
    argument = FILES[env][0]
    tasks_of(env, {})  # load the modules
    watch = Stopwatch()
    source = tasks_of(env, {argument: path})
    found = watch.look("read")
    if what != "read":
        kwargs = {argument: path} if what == "file" else {"tasks": source}
        stall = play(env, kwargs, source)
        found |= watch.look("episodes") | {"stall_s": stall}
    found["peak_mb"] = peak_mb()
    return {"env": env, "what": what} | {name: round(value, 3) for name, value in found.items()}


def in_a_process(env: str, what: str, path: str, cache: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "benchmarks.file_source_overhead", "--measure", env, what, path]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=os.environ | {"AGENTGYM_CACHE": cache})
    return json.loads(done.stdout.splitlines()[-1])


def median(rows: list[dict[str, Any]], env: str, what: str, name: str) -> float:
    return statistics.median(row[name] for row in rows if (row["env"], row["what"]) == (env, what))


def overhead(rows: list[dict[str, Any]], env: str) -> float:
    """Return the cost of reading with 64 environments on the file, as a multiple of reading it once."""
    total = median(rows, env, "file", "read_cpu_s") + median(rows, env, "file", "episodes_cpu_s")
    return (total - median(rows, env, "given", "episodes_cpu_s")) / median(rows, env, "read", "read_cpu_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, metavar=("ENV", "WHAT", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {env: str(Path(folder, written(Path(folder)))) for env, (_, written) in FILES.items()}
        in_a_process("sql", "read", paths["sql"], folder)  # verdicts on gold queries are cached for later runs
        for run in range(options.runs):
            for env, path in paths.items():
                for what in ("read", "given", "file"):
                    rows.append({"run": run} | in_a_process(env, what, path, folder))
                    print(rows[-1], file=sys.stderr)
    claims = [
        Claim("file_source_overhead", round(max(overhead(rows, env) for env in FILES), 3), "<=", 1.2),
        Claim("file_source_memory", round(max(_memory(rows, env) for env in FILES), 3), "<=", 1.2),
    ]
    write("file_source_overhead", rows, claims)


def _memory(rows: list[dict[str, Any]], env: str) -> float:
    return median(rows, env, "file", "peak_mb") / median(rows, env, "read", "peak_mb")


if __name__ == "__main__":
    main()
