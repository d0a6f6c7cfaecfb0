"""Train a tiny, warm-started model with TRL's own `GRPOTrainer` through `environment_factory`, on CPU.

Our trainer is not used. The model (0.1 M weights) learned errands from play with wrong calls, with `SFTTrainer`. TRL's
own evaluation plays held-out errands before and after, once each.

    python -m benchmarks.train_by_trl_factory [--seeds 3]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, argument_parser, write
from benchmarks._trl_factory import Done, Schedule, Training, begun_model, shares, threads, trained


def main() -> None:
    """Train with several seeds, and write the result file."""
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=Schedule.steps)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--eval-tasks", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    threads(options.threads)
    rows = [row(seed, options) for seed in range(options.seeds)]
    gigabytes = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    claims = [
        *(claim for name in Done._fields for claim in gains(name, rows)),
        Claim("trl_factory_memory_gigabytes", gigabytes, "<=", 2.0),
        Claim("trl_factory_minutes_slowest_seed", max(row["minutes"] for row in rows), "<=", 15.0),
    ]
    write("train_by_trl_factory", rows, claims, packages=("trl", "transformers", "torch"))


def gains(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return the claims that a share rises by 10 points, and by more than chance, in the worst seed."""
    pairs = [(row["before"][name], row["after"][name]) for row in rows]
    gain = min(after["share"] - before["share"] for before, after in pairs)
    gap = min(after["interval"][0] - before["interval"][1] for before, after in pairs)
    return [
        Claim(f"trl_factory_{name}_gain_worst_seed_points", round(100 * gain, 1), ">=", 10.0),
        Claim(f"trl_factory_{name}_gap_between_intervals_worst_seed_points", round(100 * gap, 1), ">=", 0.0),
    ]


def row(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train with a seed, and return its row of the result file."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = begun_model(Path(folder), seed=seed)
        schedule = Schedule(steps=options.steps)
        training = trained(Path(folder), model, tokenizer, schedule, seed=seed, held_out=options.eval_tasks)
    before, after = shares(training.before), shares(training.after)
    minutes = round((time.perf_counter() - started) / 60, 2)
    shares_of = (f"{name} {before[name]['share']:.2f} to {after[name]['share']:.2f}" for name in Done._fields)
    print(f"seed {seed}: {', '.join(shares_of)} in {minutes} minutes", flush=True)
    return {"seed": seed, "minutes": minutes, "before": before, "after": after, "steps": steps_of(training)}


def steps_of(training: Training) -> dict[str, list[float]]:
    """Return the curves of TRL's log."""
    names = {
        "reward": "reward",
        "entropy": "entropy",
        "cut": "completions/clipped_ratio",
        "alike": "frac_reward_zero_std",
    }
    return {name: [round(float(entry[key]), 3) for entry in training.log] for name, key in names.items()}


if __name__ == "__main__":
    main()
