"""The code environment, `agentgym train --env code`: 30 steps of a tiny policy with gated rewards, and what they gain.

The run is the command as a user types it, from an empty model cache. A finished run is not run again (`--folder`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._report import Claim, write
from benchmarks.train_sql import plot, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmark-code"))
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="where the curve is drawn")
    options = parser.parse_args()
    rows = [run("gated", seed, options.folder, env="code") for seed in range(options.seeds)]
    chosen = {f"seed {row['seed']}": row for row in rows}
    plot(options.plots / "code.png", chosen, options.folder, "agentgym train --env code")
    gains = [100 * (row["after"]["success"] - row["before"]["success"]) for row in rows]
    apart = [row["after"]["interval"][0] > row["before"]["interval"][1] for row in rows]
    claims = [
        Claim("train_code_gain_points_worst_seed", round(min(gains), 1), ">=", 10),
        Claim("train_code_seeds_with_intervals_apart", sum(apart), ">=", len(rows)),
    ]
    write("train_code", rows, claims, packages=("torch", "trl", "transformers"))


if __name__ == "__main__":
    main()
