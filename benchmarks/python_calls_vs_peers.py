"""Python tool calls per second and their latency, compared with SkyRL-Gym's and GEM's python tools and a bare fork.

Three modes of ours are compared: a separate sandbox for every call ("fresh", the strictest, which the claims are
about), a fresh process for every call in an episode's sandbox ("run"), and a cell in a live session. The
peers start an interpreter for every call and isolate nothing.

    python -m venv peers && peers/bin/pip install skyrl-gym==0.4.0 gem-llm==0.1.0
    python -m benchmarks.python_calls_vs_peers --peer-python peers/bin/python
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.tools.sandbox import SandboxSpec, open_sandbox
from benchmarks._peers import ask_peer
from benchmarks._report import Claim, write

CODE, EXPECTED = "print(6*7)", "42"
TIERS = ("namespaces", "landlock")
Call = Callable[[], str]


@contextmanager
def fresh(tier: str) -> Iterator[Call]:
    """Every call in a separate sandbox."""

    def call() -> str:
        with open_sandbox(SandboxSpec(), backend=tier) as sandbox:
            return sandbox.exec(code=CODE).out

    yield call


@contextmanager
def run(tier: str) -> Iterator[Call]:
    """Every call in a separate process, in one sandbox."""
    with open_sandbox(SandboxSpec(), backend=tier) as sandbox:
        yield lambda: sandbox.exec(code=CODE).out


@contextmanager
def session(tier: str) -> Iterator[Call]:
    """Every call a cell of one session."""
    with open_sandbox(SandboxSpec(), backend=tier) as sandbox:
        notebook = sandbox.python()
        yield lambda: notebook.run(CODE).out


WAYS = {"fresh sandbox": fresh, "run in a sandbox": run, "cell in a session": session}


def measure(way: Callable[[], Any], workers: int, calls: int) -> tuple[float, list[float]]:
    """Return calls per second of `workers` threads, each with its own `way`, and the latency of each call."""

    def work(_: int) -> list[float]:
        with way() as call:
            check(call)
            ready.append(True)
            while len(ready) < workers:
                time.sleep(0.001)
            return [check(call) for _ in range(calls // workers)]

    ready: list[bool] = []
    with ThreadPoolExecutor(workers) as threads:
        done = [threads.submit(work, i) for i in range(workers)]
        while len(ready) < workers and not any(each.done() for each in done):
            time.sleep(0.001)
        started = time.perf_counter()
        latencies = [value for each in done for value in each.result()]
        return len(latencies) / (time.perf_counter() - started), latencies


def check(call: Call) -> float:
    started = time.perf_counter()
    if EXPECTED not in (out := call()):
        sys.exit(f"a call answered {out!r}")
    return time.perf_counter() - started


@contextmanager
def bare_fork() -> Iterator[Call]:
    """Fork this process, print through a pipe, reap: no isolation at all."""

    def call() -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, EXPECTED.encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            text = pipe.read().decode()
        os.waitpid(child, 0)
        return text

    yield call


@contextmanager
def bare_start() -> Iterator[Call]:
    """Start this interpreter for every call, without site packages."""
    command = [sys.executable, "-I", "-S", "-c", CODE]
    yield lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout


def measure_peer(python: str, peer: str, workers: int, calls: int) -> dict[str, Any]:
    request = {"peer": peer, "workers": workers, "calls": calls, "code": CODE, "expected": EXPECTED}
    path = os.pathsep.join(
        [str(Path(python).resolve().parent), str(Path(python).absolute().parent), os.environ["PATH"]]
    )
    return ask_peer(python, "_python_peer.py", request, needs=peer, environment={"PATH": path})


def usable_tiers() -> list[str]:
    found = []
    for tier in TIERS:
        try:
            with open_sandbox(SandboxSpec(), backend=tier) as sandbox:
                found.append(sandbox.tier.value)
        except UsageError as error:
            print(f"{tier}: left out: {error}", file=sys.stderr)
    return found


def row(index: int, name: str, workers: int, rate: float, latencies: list[float]) -> dict[str, Any]:
    ordered = sorted(1000 * value for value in latencies)
    values = {
        "run": index,
        "name": name,
        "workers": workers,
        "calls_per_s": round(rate, 1),
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
    }
    print(f"run {index + 1}  {name:32} x{workers} {rate:9,.0f} calls/s  p50 {values['p50_ms']} ms", file=sys.stderr)
    return values


def play(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, str]]:
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    contenders: dict[str, tuple[Callable[[], Any], int]] = {
        f"agentgym {tier}, {name}": (partial(way, tier), options.calls * (20 if way is session else 1))
        for tier in usable_tiers()
        for name, way in WAYS.items()
    }
    contenders |= {"bare fork": (bare_fork, options.calls), "bare start of python -I -S": (bare_start, options.calls)}
    for index in range(options.runs):
        for workers in (1, 2):
            for name, (way, calls) in contenders.items():
                rows.append(row(index, name, workers, *measure(way, workers, calls)))
            for peer in ("skyrl-gym", "gem-llm"):
                answer = measure_peer(options.peer_python, peer, workers, max(20, options.calls // 4))
                versions[peer] = answer["version"]
                rows.append(row(index, peer, workers, answer["calls_per_s"], answer["latencies_s"]))
    return rows, versions


def ratio(rows: list[dict[str, Any]], ours: str, workers: int) -> float:
    """Return the median over runs of our rate divided by the faster peer's in the same run."""
    rates = {(r["run"], r["name"]): r["calls_per_s"] for r in rows if r["workers"] == workers}
    runs = sorted({index for index, _ in rates})
    best = [rates[i, ours] / max(rates[i, "skyrl-gym"], rates[i, "gem-llm"]) for i in runs]
    return round(statistics.median(best), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has skyrl-gym and gem-llm")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    rows, versions = play(options)
    tiers = [tier for tier in TIERS if any(tier in r["name"] for r in rows)]
    claims = []
    for tier in tiers:
        suffix = "" if tier == tiers[0] else f"_{tier}"
        claims += [
            Claim(f"python_calls_vs_peers{suffix}", ratio(rows, f"agentgym {tier}, fresh sandbox", 2), ">=", 10),
            Claim(f"python_runs_vs_peers{suffix}", ratio(rows, f"agentgym {tier}, run in a sandbox", 2), ">=", 10),
            Claim(f"python_cells_vs_peers{suffix}", ratio(rows, f"agentgym {tier}, cell in a session", 2), ">=", 10),
        ]
    write("python_calls_vs_peers", rows, claims, more_versions=versions)


if __name__ == "__main__":
    main()
