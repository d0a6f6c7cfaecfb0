"""Training runs of the command, their gains on held-out tasks, and their curves.

Each run is a separate process with an empty model cache, so that the time includes the warm start. Finished runs are
kept in `--folder` and not repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import Claim

PACKAGES = ("torch", "trl", "transformers")
GAIN = 10
"""Points to gain on held-out tasks."""


def gains(rows: list[dict[str, Any]]) -> list[float]:
    """Return the runs' gains in held-out success, in points."""
    return [100 * (row["after"]["success"] - row["before"]["success"]) for row in rows]


def seeds_apart(rows: list[dict[str, Any]]) -> int:
    """Return the number of runs whose final interval lies above their initial one."""
    return sum(row["after"]["interval"][0] > row["before"]["interval"][1] for row in rows)


def gain_claims(name: str, rows: list[dict[str, Any]]) -> list[Claim]:
    """Return the claims that each run gains enough, and more than chance."""
    return [
        Claim(f"{name}_gain_points_worst_seed", round(min(gains(rows)), 1), ">=", GAIN),
        Claim(f"{name}_seeds_with_intervals_apart", seeds_apart(rows), ">=", len(rows)),
    ]


def run(
    folder: Path, seed: int, *subject: str, credit: str = "gated", scheme: str | None = None, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Run or resume a training run, unless it is finished, and return its results.

    Runs that differ only in `scheme` share the cache, and thus the initial model.

    Args:
        folder: The folder of all runs of a benchmark.
        seed: Seed of the run.
        subject: Arguments that name the environment or the recipe.
        credit: Credit mode.
        scheme: Reward scheme; by default the environment's.
        more: More arguments of the command.
    """
    target = folder / f"{scheme or credit}-{seed}"
    if not (target / "wall.json").is_file():
        command = [sys.executable, "-m", "agentgym", "train", *subject, "--credit", credit, "--seed", str(seed)]
        command += [] if scheme is None else ["--set", f"scheme={scheme}"]
        command += more
        command += ["--resume"] if (target / "config.yaml").is_file() else []
        environment = {**os.environ, "AGENTGYM_CACHE": str(folder / "cache" / f"{credit}-{seed}")}
        minutes = _timed([*command, "--output-dir", str(target)], environment, folder / f"{target.name}.minutes")
        (target / "wall.json").write_text(json.dumps({"minutes": minutes}), encoding="utf-8")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    wall = json.loads((target / "wall.json").read_text(encoding="utf-8"))
    return {"credit": credit, "seed": seed, **wall, **{when: _rate(summary[when]) for when in ("before", "after")}}


def _timed(command: list[str], environment: dict[str, str], clock: Path) -> float:
    """Run a command and return its minutes, including those of interrupted runs in the file `clock`."""
    clock.parent.mkdir(parents=True, exist_ok=True)
    earlier = float(clock.read_text(encoding="utf-8")) if clock.is_file() else 0.0
    started = time.perf_counter()
    child = subprocess.Popen(command, env=environment)
    try:
        while child.poll() is None:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                clock.write_text(str(earlier + (time.perf_counter() - started) / 60), encoding="utf-8")
    finally:
        child.terminate()
        child.wait()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return earlier + (time.perf_counter() - started) / 60


def curve(folder: Path, row: dict[str, Any]) -> list[dict[str, float]]:
    """Return the step, the reward and the share of solved tasks for each step of a run."""
    from agentgym.trainers.logbook.records import read_metrics

    lines = read_metrics(folder / f"{row['credit']}-{row['seed']}" / "metrics.jsonl")
    return [{name: line[name] for name in ("step", "reward", "success")} for line in lines if "success" in line]


def _rate(summary: dict[str, Any]) -> dict[str, Any]:
    overall = summary["overall"]
    return {name: overall[name] for name in ("success", "interval", "tasks", "attempts")}


def plot(target: Path, runs: dict[str, dict[str, Any]], folder: Path, title: str) -> None:
    """Draw the learning curves of `runs`, labelled by their keys."""
    from agentgym.trainers.logbook.curve import draw_curve
    from agentgym.trainers.logbook.records import read_metrics

    metrics = {
        name: list(read_metrics(folder / f"{row['credit']}-{row['seed']}" / "metrics.jsonl"))
        for name, row in runs.items()
    }
    held_out = {name: (_as_rate(row["before"]), _as_rate(row["after"])) for name, row in runs.items()}
    target.parent.mkdir(exist_ok=True)
    draw_curve(target, metrics, held_out, title)


def _as_rate(values: dict[str, Any]) -> Any:
    from agentgym.eval.statistics import Interval
    from agentgym.eval.summary import Rate

    return Rate(values["success"], Interval(*values["interval"]), values["tasks"], values["attempts"])
