"""The main job, `agentgym train --env sql`: what it gains on held-out tasks, how long it takes, credit modes compared.

Each run is the command as a user types it, in a process of its own and from an empty model cache, so that the time
includes the warm start. Runs that are finished are not run again (`--folder` keeps them).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, write

CREDITS = ("gated", "outcome", "turn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the default credit mode")
    parser.add_argument("--credits", nargs="*", default=list(CREDITS), help="modes compared, on seed 0")
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmark"))
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="where the curves are drawn")
    options = parser.parse_args()
    wanted = [("gated", seed) for seed in range(options.seeds)]
    wanted += [(credit, 0) for credit in options.credits if credit != "gated"]
    rows = [run(credit, seed, options.folder) for credit, seed in wanted]
    draw(rows, options.folder, options.plots)
    default = [row for row in rows if row["credit"] == "gated"]
    gains = [100 * (row["after"]["success"] - row["before"]["success"]) for row in default]
    apart = [row["after"]["interval"][0] > row["before"]["interval"][1] for row in default]
    claims = [
        Claim("train_sql_gain_points", round(statistics.median(gains), 1), ">=", 20),
        Claim("train_sql_gain_points_worst_seed", round(min(gains), 1), ">=", 20),
        Claim("train_sql_seeds_with_intervals_apart", sum(apart), ">=", 3),
        Claim("train_sql_minutes", round(max(row["minutes"] for row in default), 1), "<=", 15),
    ]
    write("train_sql", rows, claims, packages=("torch", "trl", "transformers", "duckdb"))


def run(credit: str, seed: int, folder: Path, env: str = "sql") -> dict[str, Any]:
    """Run one training run, unless it has been, and return what it achieved."""
    target = folder / f"{credit}-{seed}"
    if not (target / "wall.json").is_file():
        cache = folder / "cache" / f"{credit}-{seed}"
        command = [sys.executable, "-m", "agentgym", "train", "--env", env, "--credit", credit, "--seed", str(seed)]
        started = time.perf_counter()
        environment = {**os.environ, "AGENTGYM_CACHE": str(cache)}
        subprocess.run([*command, "--output-dir", str(target)], env=environment, check=True)
        minutes = (time.perf_counter() - started) / 60
        (target / "wall.json").write_text(json.dumps({"minutes": minutes}), encoding="utf-8")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    wall = json.loads((target / "wall.json").read_text(encoding="utf-8"))
    return {"credit": credit, "seed": seed, **wall, **{when: _rate(summary[when]) for when in ("before", "after")}}


def _rate(summary: dict[str, Any]) -> dict[str, Any]:
    overall = summary["overall"]
    return {name: overall[name] for name in ("success", "interval", "tasks", "attempts")}


def draw(rows: list[dict[str, Any]], folder: Path, plots: Path) -> None:
    """Draw the seeds of the default mode in one plot, and the credit modes in another."""
    seeds = {f"seed {row['seed']}": row for row in rows if row["credit"] == "gated"}
    plot(plots / "curve.png", seeds, folder, "agentgym train --env sql")
    credits = {row["credit"]: row for row in rows if row["seed"] == 0}
    plot(plots / "credit.png", credits, folder, "credit modes on the SQL environment, seed 0")


def plot(target: Path, chosen: dict[str, dict[str, Any]], folder: Path, title: str) -> None:
    """Draw the learning curves of runs in `folder`, by the names they are chosen under."""
    from agentgym.trainers.records import read_metrics
    from agentgym.trainers.report import draw_curve

    metrics = {
        name: list(read_metrics(folder / f"{row['credit']}-{row['seed']}" / "metrics.jsonl"))
        for name, row in chosen.items()
    }
    held_out = {name: (_as_rate(row["before"]), _as_rate(row["after"])) for name, row in chosen.items()}
    target.parent.mkdir(exist_ok=True)
    draw_curve(target, metrics, held_out, title)


def _as_rate(values: dict[str, Any]) -> Any:
    from agentgym.statistics import Interval
    from agentgym.summary import Rate

    return Rate(values["success"], Interval(*values["interval"]), values["tasks"], values["attempts"])


if __name__ == "__main__":
    main()
