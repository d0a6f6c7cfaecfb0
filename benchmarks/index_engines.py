"""Search engines over the same made-up passages: build time, memory, disk, queries per second, and result quality.

Every engine builds in one process and answers in another, so that memory is that of a single engine. One thread.

python -m benchmarks.index_engines --sizes 100000,1000000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym.tools.index import Document, LocalIndex, build_index, open_index
from benchmarks._passages import best_by_bm25, passages, queries
from benchmarks._report import Claim, write

ENGINES = {"tantivy": "tantivy", "fts5": "fts5", "bm25s numba": "bm25s", "bm25s numpy": "bm25s"}
"""Engines, and the backends whose folders they read."""
K = 10
WARM_UP = 20
JUDGED = 200
"""Number of queries whose results are compared with exact BM25."""
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


class Timed:
    """Passes on documents and times how long making them took, which is not the engine's work."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = iter(documents)
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Document]:
        while True:
            started = time.perf_counter()
            document = next(self._documents, None)
            self.seconds += time.perf_counter() - started
            if document is None:
                return
            yield document


def build(backend: str, size: int, folder: Path) -> dict[str, Any]:
    documents = Timed(passages(size))
    started = time.perf_counter()
    build_index(documents, folder, backend).close()
    seconds = time.perf_counter() - started - documents.seconds
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"build_s": round(seconds, 2), "build_peak_mb": _peak_mb(), "disk_mb": _mb(disk)}


def open_engine(engine: str, folder: Path) -> LocalIndex:
    if ENGINES[engine] == "bm25s":
        from agentgym.tools.index.backends.bm25s import Bm25s

        return LocalIndex(folder, Bm25s(engine.split()[1]).open, None)
    index = open_index(folder)
    assert isinstance(index, LocalIndex)
    return index


def ask(engine: str, folder: Path, count: int, limit_s: float) -> dict[str, Any]:
    """Ask one query at a time; `found` holds the results of the first ones."""
    started = time.perf_counter()
    index = open_engine(engine, folder)
    index.search("warm up")
    asked = queries(count)
    index.search(asked[0], K)
    first = time.perf_counter() - started
    for query in queries(WARM_UP, seed=2):
        index.search(query, K)
    hits = [[hit.id for hit in index.search(query, K)] for query in asked[: min(JUDGED, count)]]
    times = _times(asked, lambda query: index.search(query, K), limit_s)
    whole = _times(asked, lambda query: index.find_many([query], K), limit_s)
    return {
        "first_answer_s": round(first, 3),
        "queries": len(times),
        "qps": round(len(times) / sum(times), 1),
        "p50_ms": round(statistics.median(times) * 1000, 3),
        "p95_ms": round(sorted(times)[len(times) * 95 // 100] * 1000, 3),
        "documents_qps": round(len(whole) / sum(whole), 1),
        "rss_mb": _peak_mb(),
        "found": hits,
    }


def _times(asked: Sequence[str], work: Callable[[str], Any], limit_s: float) -> list[float]:
    times: list[float] = []
    until = time.perf_counter() + limit_s
    for query in asked:
        started = time.perf_counter()
        work(query)
        times.append(time.perf_counter() - started)
        if time.perf_counter() > until:
            break
    return times


def recall(found: Sequence[Sequence[str]], exact: Sequence[set[str]]) -> float:
    """Return the share of the K best documents found per query; documents that tie with the last of them count too."""
    shares = [len(best.intersection(ids)) / min(K, len(best)) for ids, best in zip(found, exact, strict=True) if best]
    return round(statistics.mean(shares), 4)


def in_child(work: str, *arguments: object) -> Any:
    """Do one thing in a new process, and return its output."""
    command = [sys.executable, "-m", "benchmarks.index_engines", "--child", json.dumps([work, *arguments])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, **ONE_THREAD})
    return json.loads(done.stdout)


def child(work: str, *arguments: Any) -> Any:
    if work == "build":
        backend, size, folder = arguments
        return build(backend, size, Path(folder))
    if work == "ask":
        engine, folder, count, limit_s = arguments
        return ask(engine, Path(folder), count, limit_s)
    size, count = arguments
    return [sorted(best) for best in best_by_bm25(passages(size), queries(count)[:JUDGED], K)]


def measure(size: int, runs: int, count: int, limit_s: float, work: Path) -> list[dict[str, Any]]:
    """Build once, then let the engines answer in turns; one row for every run of an engine."""
    exact = [set(best) for best in in_child("exact", size, count)]
    folders = {backend: str(work / f"{backend}-{size}") for backend in dict.fromkeys(ENGINES.values())}
    built = {backend: in_child("build", backend, size, folder) for backend, folder in folders.items()}
    rows = []
    for run in range(runs):
        for engine, backend in ENGINES.items():
            asked = in_child("ask", engine, folders[backend], count, limit_s)
            found = recall(asked.pop("found"), exact)
            rows.append({"run": run, "name": engine, "size": size, **built[backend], **asked, "recall_at_10": found})
            print(f"{size:>9,} run {run + 1}/{runs}  {engine:12} {asked['qps']:>9,.0f} queries/s", file=sys.stderr)
    return rows


def claims_of(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """State the goals of the default engine for the sizes that were measured."""
    goals = {100_000: ("100k", 3_000.0, 200.0), 1_000_000: ("1m", 500.0, 800.0)}
    claims = []
    for size, (name, qps, rss_mb) in goals.items():
        if not any(row["size"] == size for row in rows):
            continue
        tantivy = {
            key: median(rows, size, "tantivy", key) for key in ("qps", "documents_qps", "rss_mb", "recall_at_10")
        }
        numpy_qps, fts5_qps = (median(rows, size, engine, "qps") for engine in ("bm25s numpy", "fts5"))
        claims += [
            Claim(f"tantivy_{name}_qps", tantivy["qps"], ">=", qps),
            Claim(f"tantivy_{name}_whole_documents_qps", tantivy["documents_qps"], ">=", qps),
            Claim(f"tantivy_{name}_rss_mb", tantivy["rss_mb"], "<=", rss_mb),
            Claim(f"tantivy_{name}_recall_at_10", tantivy["recall_at_10"], ">=", 0.95),
            Claim(f"tantivy_{name}_qps_over_fts5", round(tantivy["qps"] / fts5_qps, 1), ">=", 10.0),
            Claim(f"tantivy_{name}_qps_over_bm25s_numpy", round(tantivy["qps"] / numpy_qps, 1), ">=", 10.0),
        ]
    return claims


def median(rows: Sequence[dict[str, Any]], size: int, engine: str, key: str) -> float:
    return statistics.median(row[key] for row in rows if row["size"] == size and row["name"] == engine)


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _mb(size: int) -> float:
    return round(size / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of passages, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--limit-s", type=float, default=30.0, help="maximum duration of one measurement")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*json.loads(options.child))))
        return
    rows: list[dict[str, Any]] = []
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as work:
            rows += measure(size, options.runs, options.queries, options.limit_s, Path(work))
    write("index_engines", rows, claims_of(rows), packages=["tantivy", "bm25s", "numba", "numpy"])


if __name__ == "__main__":
    main()
