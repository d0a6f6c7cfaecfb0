"""The servers of indexes and of sandboxes under the heaviest requests that their limits allow, for minutes.

Further load comes from 1,100 half-open connections, clients that leave before their answer, bodies without a token and
bytes that are not HTTP. Meanwhile an honest client of each server is timed, and the server's memory is sampled.
When the load has stopped, the server's open files are compared with those after a first, short load; then the load
comes again, and the server gets SIGTERM under it.

The bounds on memory: an index server holds at most 128 MB of unfinished bodies and unread answers (twice, as the write
buffer is a copy), four large requests with 2 MB of queries, which take 8 MB in parts, and an answer of 16 MB (twice
while it is put together), 64 small requests of 1 MB, and about 100 MB of program and index: 600 MB. A server of
sandboxes holds `--memory` (384 MB here) twice, for the copy that is being sent, and 150 MB of program: 918 MB.

    python -m benchmarks.server_soak
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from agentgym.tools.index import Document, build_index
from benchmarks import _soak_load as load
from benchmarks._report import Claim, write

MEMORY_MB = 384
DOCUMENTS = 3_000
SETTLE_S = 25
FULL_LOAD_S = 10
PATIENCE_S = 10


@dataclass(frozen=True)
class Soaked:
    """A server, its loads, its honest client, and the bound on its memory."""

    name: str
    command: tuple[str, ...]
    loads: tuple[tuple[Callable[..., None], int], ...]
    honest: Callable[..., None]
    most_mb: int
    p95_s: float


def corpus() -> Iterator[Document]:
    random = Random(1)
    words = [f"w{number}" for number in range(20_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for number in range(DOCUMENTS):
        yield Document(f"d{number}", f"Passage {number}", " ".join(random.choices(words, cum_weights=weights, k=150)))


@contextmanager
def talking(soaked: Soaked, url: str, token: str) -> Iterator[tuple[Any, Any]]:
    """Run all the load and the honest client; yield the event that stops them and the queue of the client's results."""
    context = multiprocessing.get_context("spawn")
    stop, asked, ready = context.Event(), context.SimpleQueue(), context.Barrier(len(soaked.loads) + 2)
    wanted = [*soaked.loads, (soaked.honest, asked)]
    people = [context.Process(target=load.begin, args=(each, url, token, stop, how, ready)) for each, how in wanted]
    for each in people:
        each.start()
    try:
        ready.wait(120)
        yield stop, asked
    finally:
        stop.set()
        for each in people:
            each.join(30)
            if each.is_alive():
                each.kill()


Play = Callable[[], AbstractContextManager[tuple[Any, Any]]]
"""Runs all the load, as `talking` does."""


def _work_once(play: Play) -> None:
    """Let a server work: what it keeps from then on, such as prepared sandboxes, is not a leak."""
    with play() as (stop, asked):
        time.sleep(FULL_LOAD_S)
        stop.set()
        asked.get()
    time.sleep(SETTLE_S)


def _loaded(play: Play, pid: int, minutes: float, sampled: list[float]) -> Any:
    """Put a server under load for some minutes, sample its memory, and return what its honest client saw."""
    with play() as (stop, asked):
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            sampled.append(memory_mb(pid))
            time.sleep(0.25)
        stop.set()
        rows = asked.get()
    time.sleep(SETTLE_S)
    return rows


def _ended_under_load(play: Play, server: subprocess.Popen[str], sampled: list[float]) -> tuple[float, list[int]]:
    """End a server that is at work; return the seconds that it took, and which of its processes still run."""
    with play() as (stop, asked):
        time.sleep(FULL_LOAD_S)
        sampled.append(memory_mb(server.pid))
        children = descendants(server.pid)
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        ended_s = time.monotonic() - began
        left = [pid for pid in children if is_running(pid)]
        # On a busy machine, a killed process takes a moment to die.
        patience = time.monotonic() + PATIENCE_S
        while left and time.monotonic() < patience:
            time.sleep(0.1)
            left = [pid for pid in left if is_running(pid)]
        stop.set()
        asked.get()
    return ended_s, left


def soak(soaked: Soaked, token: str, minutes: float) -> dict[str, Any]:
    server = subprocess.Popen([sys.executable, *soaked.command], stdout=subprocess.PIPE, text=True)
    try:
        url = address_of(server)
        play = partial(talking, soaked, url, token)
        _work_once(play)
        files = open_files(server.pid)
        sampled = [memory_mb(server.pid)]
        rows = _loaded(play, server.pid, minutes, sampled)
        left_open = open_files(server.pid) - files
        ended_s, left = _ended_under_load(play, server, sampled)
    finally:
        server.kill()
        server.wait()
    return row(soaked, sampled, rows, left_open, ended_s, len(left))


def row(
    soaked: Soaked, sampled: Sequence[float], asked: Sequence[Any], left_open: int, ended_s: float, left: int
) -> dict[str, Any]:
    times = sorted(took for fine, took, _ in asked if fine)
    made = {
        "name": soaked.name,
        "memory_mb_at_start": round(sampled[0]),
        "memory_mb_median": round(statistics.median(sampled)),
        "memory_mb_most": round(max(sampled)),
        "memory_mb_bound": soaked.most_mb,
        "honest_requests": len(asked),
        "honest_answered": len(times),
        "honest_problems": sorted({problem for fine, _, problem in asked if not fine})[:5],
        "honest_p50_s": round(statistics.median(times), 4),
        "honest_p95_s": round(times[int(0.95 * (len(times) - 1))], 4),
        "honest_most_s": round(times[-1], 4),
        "files_left_open": left_open,
        "ended_s": round(ended_s, 3),
        "processes_left": left,
    }
    print(made, file=sys.stderr)
    return made


def claims_of(rows: Sequence[dict[str, Any]], soaks: Sequence[Soaked]) -> list[Claim]:
    claims = []
    for made, soaked in zip(rows, soaks, strict=True):
        name = f"soak_{soaked.name}"
        answered = made["honest_answered"] / max(1, made["honest_requests"])
        claims += [
            Claim(f"{name}_memory_mb", made["memory_mb_most"], "<=", soaked.most_mb),
            Claim(f"{name}_honest_answered", round(answered, 4), ">=", 0.99),
            Claim(f"{name}_honest_p95_s", made["honest_p95_s"], "<=", soaked.p95_s),
            Claim(f"{name}_ended_s", made["ended_s"], "<=", 2.0),
            Claim(f"{name}_processes_left", made["processes_left"], "<=", 0),
            # Idle connections of a client that has just ended may not have timed out yet.
            Claim(f"{name}_files_left_open", made["files_left_open"], "<=", 8),
        ]
    return claims


def address_of(server: subprocess.Popen[str]) -> str:
    assert server.stdout
    while not (line := server.stdout.readline()).startswith("Listening on "):
        if not line:
            sys.exit("the server ended")
    return line.removeprefix("Listening on ").strip()


def memory_mb(pid: int) -> float:
    """Return a process's resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and their descendants."""
    found, parents = [], [pid]
    while parents:
        parent = parents.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            found += children
            parents += children
    return found


def is_running(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def soaks_of(folder: Path, token: str) -> list[Soaked]:
    build_index(corpus(), folder / "index").close()
    (folder / "token").write_text(token)
    serve = ("-m", "agentgym", "serve")
    return [
        Soaked(
            "index",
            (*serve, "index", str(folder / "index")),
            (
                (load.heavy_searches, 8),
                (load.vanishing_searches, 4),
                (load.half_open, load.HALF_OPEN),
                (load.intruders, 1),
            ),
            load.honest_searches,
            600,
            5.0,
        ),
        Soaked(
            "sandbox",
            (
                *(*serve, "sandbox", "--token-file", str(folder / "token"), "--silent", "5"),
                *("--sandboxes", "16", "--memory", str(MEMORY_MB)),
            ),
            (
                (load.heavy_sandboxes, 6),
                (load.vanishing_sandboxes, 2),
                (load.half_open, load.HALF_OPEN),
                (load.intruders, 1),
            ),
            load.honest_sandboxes,
            2 * MEMORY_MB + 150,
            20.0,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="total duration of the load on both servers")
    options = parser.parse_args()
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as place:
        soaks = soaks_of(Path(place), token)
        rows = [soak(each, token, options.minutes / len(soaks)) for each in soaks]
    write(
        "server_soak",
        [{"minutes_each": options.minutes / len(rows), **each} for each in rows],
        claims_of(rows, soaks),
        packages=("tantivy", "starlette", "uvicorn", "h11", "httpx"),
    )


if __name__ == "__main__":
    main()
