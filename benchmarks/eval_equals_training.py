"""Does `agentgym eval` find what training reported? The tiny model on `sql`, before and after a few steps of GRPO.

Training reports its success on held-out tasks in `summary.json`. The saved checkpoint, and the warm-started model that
it began with, play the same tasks again by `agentgym eval`: with another seed and more attempts, and with the seed of
the run. The run's number must lie within the interval of the former.

With the seed and the number of attempts of the run, the episodes must be the same, token by token: what is drawn
follows from the weights and the seed alone.

    python -m benchmarks.eval_equals_training            # about five minutes on two cores; less if the model is cached
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym import yaml12
from agentgym.trajectory import read_jsonl
from benchmarks._report import Claim, write

ENV = "sql"
ATTEMPTS = 4
OTHER_SEED = 1


def agentgym(*arguments: object) -> str:
    """Run a command of agentgym and return its output."""
    command = [sys.executable, "-m", "agentgym", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def evaluate(policy: str | Path, run: Path, attempts: int, seed: int, out: Path) -> dict[str, Any]:
    """Evaluate a policy on the held-out tasks of a run, with its limits; return success with its interval."""
    config = yaml12.load((run / "config.yaml").read_text(encoding="utf-8"))
    tasks = ("--tasks", "test", "--limit", config["eval_tasks"], "--attempts", attempts)
    limits = ("--max-new-tokens", config["max_new_tokens"], "--seed", seed)
    return json.loads(agentgym("eval", "--env", ENV, "--policy", policy, *tasks, *limits, "--out", out, "--json"))[
        "overall"
    ]


def said(path: Path) -> dict[str, list[int]]:
    """Return the sampled tokens of each attempt at each task."""
    return {one.id: one.tokens.completion_ids for one in read_jsonl(path) if one.tokens is not None}


def compare(when: str, policy: str | Path, run: Path, folder: Path) -> dict[str, Any]:
    """Compare what training reported with what `agentgym eval` finds."""
    reported = json.loads((run / "summary.json").read_text(encoding="utf-8"))[when]["overall"]
    found = evaluate(policy, run, ATTEMPTS, OTHER_SEED, folder / f"{when}-other.jsonl")
    alike = evaluate(policy, run, reported["attempts"] // reported["tasks"], 0, folder / f"{when}-same.jsonl")
    trained, again = said(run / f"eval-{when}.jsonl"), said(folder / f"{when}-same.jsonl")
    low, high = found["interval"]
    return {
        "when": when,
        "tasks": reported["tasks"],
        "training": reported["success"],
        "training_attempts": reported["attempts"],
        "eval": found["success"],
        "eval_low": low,
        "eval_high": high,
        "eval_attempts": found["attempts"],
        "within": low <= reported["success"] <= high,
        "eval_with_the_same_seed": alike["success"],
        "episodes_with_other_tokens": sum(again.get(name) != ids for name, ids in trained.items()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200, help="number of held-out tasks")
    parser.add_argument("--steps", type=int, default=4, help="steps of GRPO")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = folder / "run"
        agentgym(
            *("train", "--env", ENV, "--steps", options.steps, "--eval-tasks", options.tasks, "--output-dir", run),
            *("--report-to", "[]", "--groups", 16),
        )
        rows = [compare("before", "tiny", run, folder), compare("after", run / "model", run, folder)]
    outside = sum(not row["within"] for row in rows)
    claims = [
        Claim("reported successes outside of the interval that agentgym eval finds", outside, "<=", 0),
        Claim(
            "episodes that agentgym eval plays otherwise with the seed of the run",
            sum(row["episodes_with_other_tokens"] for row in rows),
            "<=",
            0,
        ),
    ]
    write("eval_equals_training", rows, claims, packages=("transformers", "torch", "trl"))
    return int(not all(claim.holds for claim in claims))


if __name__ == "__main__":
    sys.exit(main())
