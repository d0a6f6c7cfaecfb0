"""A server of the Search-R1 contract under 64 concurrent clients: ours, and the shape of the usual one, on one index.

The usual server checks requests and answers with pydantic models and handles each in a thread of the framework's own;
here it has our index, so that only the serving differs. Clients are ours, in processes of their own.

    python -m benchmarks.index_server
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from agentgym.tools.index import Document, build_index, open_index
from agentgym.tools.index.client import SearchR1Client
from benchmarks._report import Claim, write

VOCABULARY = 300_000
COMMON = 50
K = 3


@dataclass(frozen=True)
class Load:
    """The work of the clients: each sends `requests` requests with `queries` queries each."""

    clients: int
    requests: int
    queries: int


class Words:
    """Words with natural frequencies: the n-th in proportion to 1/n."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))

    def some(self, count: int) -> list[int]:
        return self._random.choices(range(VOCABULARY), cum_weights=self._weights, k=count)

    def query(self) -> str:
        """Return 3 to 8 words, none of them common."""
        wanted = self._random.randint(3, 8)
        words = [number for number in self.some(8 * wanted) if number >= COMMON]
        return " ".join(f"w{number}" for number in words[:wanted])


def corpus(count: int) -> Iterator[Document]:
    words = Words(1)
    for number in range(count):
        text = " ".join(f"w{word}" for word in words.some(100))
        yield Document(f"d{number}", f"Passage {number}", text)


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """Run a server in a separate process; its last line gives its address."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            while not (line := process.stdout.readline()).startswith("Listening on "):
                if not line:
                    sys.exit(f"{command} ended")
            yield line.removeprefix("Listening on ").strip()
        finally:
            process.terminate()
            process.wait(30)


def drive(url: str, load: Load, processes: int) -> tuple[float, list[float]]:
    """Return requests per second of all clients together, and the latency of each request."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    results: Any = context.SimpleQueue()
    share = [load.clients // processes + (number < load.clients % processes) for number in range(processes)]
    workers = [
        context.Process(target=_drive, args=(url, load, clients, 1000 * number, ready, results))
        for number, clients in enumerate(share)
    ]
    for worker in workers:
        worker.start()
    ready.wait(120)
    began = time.perf_counter()
    latencies = [value for _ in workers for value in results.get()]
    passed = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return len(latencies) / passed, latencies


def _drive(url: str, load: Load, clients: int, seed: int, ready: Any, results: Any) -> None:
    """Act as some of the clients: each a thread with its own client."""
    words = Words(seed + 7)
    asked = [[[words.query() for _ in range(load.queries)] for _ in range(load.requests)] for _ in range(clients)]
    start = threading.Barrier(clients + 1)

    def work(requests: Sequence[Sequence[str]]) -> list[float]:
        with closing(SearchR1Client(url)) as client:
            client.search_many(requests[0], K)
            start.wait(120)
            return [_timed(client, queries) for queries in requests]

    with ThreadPoolExecutor(clients) as threads:
        running = [threads.submit(work, requests) for requests in asked]
        while start.n_waiting < clients:
            time.sleep(0.001)
        ready.wait(120)
        start.wait(120)
        results.put([value for each in running for value in each.result()])


def _timed(client: SearchR1Client, queries: Sequence[str]) -> float:
    began = time.perf_counter()
    if len(client.search_many(queries, K)) != len(queries):
        sys.exit("an answer is missing")
    return time.perf_counter() - began


def row(run: int, name: str, load: Load, rate: float, latencies: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(1000 * value for value in latencies)
    made = {
        "run": run,
        "name": name,
        "clients": load.clients,
        "queries_per_request": load.queries,
        "requests_per_s": round(rate, 1),
        "queries_per_s": round(rate * load.queries, 1),
        "p50_ms": round(statistics.median(ordered), 3),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 3),
    }
    print(
        f"run {run + 1}  {name:24} x{load.clients:<3} {load.queries:>4} queries {rate:9,.0f} requests/s",
        file=sys.stderr,
    )
    return made


def in_process(run: int, folder: Path, queries: int) -> dict[str, Any]:
    """The index without a server: the baseline for HTTP."""
    words = Words(3)
    asked = [words.query() for _ in range(queries)]
    with closing(open_index(folder)) as index:
        index.search(asked[0], K)
        latencies = []
        for query in asked:
            began = time.perf_counter()
            index.search(query, K)
            latencies.append(time.perf_counter() - began)
    return row(run, "in process", Load(1, queries, 1), queries / sum(latencies), latencies)


def play(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    loads = [
        Load(1, options.requests * 4, 1),
        Load(options.clients, options.requests, 1),
        Load(8, max(2, options.requests // 16), options.batch),
    ]
    servers = {
        "agentgym": ("-m", "agentgym", "serve", "index", str(folder)),
        f"agentgym, {options.workers} workers": (
            "-m", "agentgym", "serve", "index", str(folder), "--workers", str(options.workers),
        ),
        "usual server": ("-m", "benchmarks._index_peer", str(folder)),
    }  # fmt: skip
    rows = []
    for run in range(options.runs):
        rows.append(in_process(run, folder, options.requests * 10))
        for name, command in servers.items():
            with serving(*command) as url:
                for load in loads:
                    rows.append(row(run, name, load, *drive(url, load, min(options.processes, load.clients))))
    return rows


def claims_of(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> list[Claim]:
    def median(name: str, clients: int, queries: int, what: str) -> float:
        return statistics.median(
            r[what] for r in rows if (r["name"], r["clients"], r["queries_per_request"]) == (name, clients, queries)
        )

    ours = median("agentgym", options.clients, 1, "requests_per_s")
    usual = median("usual server", options.clients, 1, "requests_per_s")
    return [
        Claim(f"index_server_requests_per_s_{options.clients}_clients", ours, ">=", 500),
        Claim(f"index_server_vs_usual_{options.clients}_clients", round(ours / usual, 3), ">=", 1.0),
        Claim(
            f"index_server_queries_per_s_batches_of_{options.batch}",
            median("agentgym", 8, options.batch, "queries_per_s"),
            ">=",
            2000,
        ),
        Claim(
            f"index_server_p95_ms_{options.clients}_clients",
            median("agentgym", options.clients, 1, "p95_ms"),
            "<=",
            250,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2, help="number of client processes")
    parser.add_argument("--requests", type=int, default=64, help="number of requests per client")
    parser.add_argument("--batch", type=int, default=256, help="number of queries in a large request")
    parser.add_argument("--workers", type=int, default=2, help="processes of our server in its second setting")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        build_index(corpus(options.documents), folder).close()
        rows = play(options, folder)
    write(
        "index_server",
        rows,
        claims_of(rows, options),
        packages=("tantivy", "fastapi", "starlette", "uvicorn", "httpx", "pydantic"),
    )


if __name__ == "__main__":
    main()
