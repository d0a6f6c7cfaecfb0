"""Train with TRL's own `GRPOTrainer` through `environment_factory`, on CPU, from a tiny model that guesses.

Nothing of our trainer takes part. The model (0.1 M weights) learned to write calls from random play, by `SFTTrainer`.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from benchmarks._guessing import BY_CHANCE
from benchmarks._report import Claim, write
from benchmarks._trl_factory import begun_model, threads, trained

FEW = 5
"""Steps over which the reward at the start and at the end is averaged."""


def main() -> None:
    """Train with several seeds, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    threads(options.threads)
    rows = []
    for seed in range(options.seeds):
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            model, tokenizer = begun_model(Path(folder), seed=seed)
            log = trained(Path(folder), model, tokenizer, steps=options.steps, seed=seed)
        curve = [round(float(entry["reward"]), 3) for entry in log]
        start, end = (round(sum(some) / len(some), 3) for some in (curve[:FEW], curve[-FEW:]))
        minutes = round((time.perf_counter() - started) / 60, 2)
        rows.append({"seed": seed, "minutes": minutes, "start": start, "end": end, "curve": curve})
        print(f"seed {seed}: reward {start:.2f} to {end:.2f} in {minutes} minutes", flush=True)
    gigabytes = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    claims = [
        Claim("trl_factory_reward_gain_worst_seed", round(min(r["end"] - r["start"] for r in rows), 3), ">=", 0.1),
        Claim("trl_factory_reward_at_end_worst_seed", min(row["end"] for row in rows), ">=", BY_CHANCE + 0.1),
        Claim("trl_factory_memory_gigabytes", gigabytes, "<=", 2.0),
    ]
    write("train_by_trl_factory", rows, claims, packages=("trl", "transformers", "torch"))


if __name__ == "__main__":
    main()
