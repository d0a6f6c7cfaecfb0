"""The main job, `agentgym train --env sql`: its gain on held-out tasks, its time, and credit modes compared.

python -m benchmarks.train_sql [--seeds 3] [--credits gated outcome turn]
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, argument_parser, write
from benchmarks._training import PACKAGES, gains, plot, run, seeds_apart

CREDITS = ("gated", "outcome", "turn")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds for the default credit mode")
    parser.add_argument("--credits", nargs="*", default=list(CREDITS), help="credit modes to compare, on seed 0")
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmark"))
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plots")
    options = parser.parse_args()
    runs = [("gated", seed) for seed in range(options.seeds)]
    runs += [(credit, 0) for credit in options.credits if credit != "gated"]
    rows = [run(options.folder, seed, "--env", "sql", credit=credit) for credit, seed in runs]
    draw(rows, options.folder, options.plots)
    default = [row for row in rows if row["credit"] == "gated"]
    claims = [
        Claim("train_sql_gain_points", round(statistics.median(gains(default)), 1), ">=", 20),
        Claim("train_sql_gain_points_worst_seed", round(min(gains(default)), 1), ">=", 20),
        Claim("train_sql_seeds_with_intervals_apart", seeds_apart(default), ">=", 3),
        Claim("train_sql_minutes", round(max(row["minutes"] for row in default), 1), "<=", 15),
    ]
    write("train_sql", rows, claims, packages=(*PACKAGES, "duckdb"))


def draw(rows: list[dict[str, Any]], folder: Path, plots: Path) -> None:
    """Plot the seeds of the default mode, and in a second plot the credit modes."""
    seeds = {f"seed {row['seed']}": row for row in rows if row["credit"] == "gated"}
    plot(plots / "curve.png", seeds, folder, "agentgym train --env sql")
    credits = {row["credit"]: row for row in rows if row["seed"] == 0}
    plot(plots / "credit.png", credits, folder, "credit modes on the SQL environment, seed 0")


if __name__ == "__main__":
    main()
