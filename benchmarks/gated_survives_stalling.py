"""Does gating help? The stalling environment `errand`, trained with its gated scheme and without the gates.

Both schemes use the same channels, weights and initial models: `g_ra` pays chats in solved
episodes only, `d_ra` adds everything up (Gated Reward Accumulation, arXiv 2508.10548). For each seed the two runs share
all settings (the recipe `errand`).

    python -m benchmarks.gated_survives_stalling [--seeds 3] [--jobs 3]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks._report import Claim, argument_parser, write
from benchmarks._training import PACKAGES, run

SCHEMES = ("g_ra", "d_ra")
PANELS = {
    "success": "solved episodes (%)",
    "channel/delivered": "episodes that deliver something (%)",
    "channel/chatted": "chats in an episode",
}
"""Panels of the plot: the goal, the share of episodes that deliver something, and the immediate reward."""


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="number of seeds to train concurrently")
    parser.add_argument("--folder", type=Path, default=Path("runs/gated_survives_stalling"))
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plot")
    options = parser.parse_args()
    with ThreadPoolExecutor(options.jobs) as jobs:
        rows = list(chain.from_iterable(jobs.map(partial(train, options.folder), range(options.seeds))))
    draw(options.plots / "gating.png", rows, options.folder)
    success = {scheme: [row["after"]["success"] for row in rows if row["scheme"] == scheme] for scheme in SCHEMES}
    gaps = [gated - direct for gated, direct in zip(success["g_ra"], success["d_ra"], strict=True)]
    claims = [
        Claim("gated_survives_stalling", round(fmean(gaps), 3), ">=", 0.5),
        Claim("gated_survives_stalling_worst_seed", round(min(gaps), 3), ">=", 0.5),
    ]
    write("gated_survives_stalling", rows, claims, packages=PACKAGES)


def train(folder: Path, seed: int) -> list[dict[str, Any]]:
    """Train with every scheme from one starting model, and return the results of the runs."""
    return [
        {"scheme": scheme, **run(folder, seed, "--env", "errand", scheme=scheme), **ends(folder, scheme, seed)}
        for scheme in SCHEMES
    ]


def ends(folder: Path, scheme: str, seed: int) -> dict[str, Any]:
    """Return the reward, the turns and the channels of the held-out episodes before and after training."""
    summary = json.loads((folder / f"{scheme}-{seed}" / "summary.json").read_text(encoding="utf-8"))
    names = ("reward", "turns", "channels", "endings")
    return {f"{when}_episodes": {name: summary[when][name] for name in names} for when in ("before", "after")}


def draw(target: Path, rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Plot the sampled episodes over training: one thin line per seed, a thick one for the mean."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from agentgym.trainers.logbook.records import read_metrics

    figure, axes = plt.subplots(1, len(PANELS), figsize=(12, 3.8), dpi=130)
    for scheme, colour, label in (("g_ra", "C0", "gated (g_ra)"), ("d_ra", "C3", "direct accumulation (d_ra)")):
        seeds = [row["seed"] for row in rows if row["scheme"] == scheme]
        runs = [list(read_metrics(folder / f"{scheme}-{seed}" / "metrics.jsonl")) for seed in seeds]
        for panel, (name, title) in zip(axes, PANELS.items(), strict=True):
            scale = 100 if "%" in title else 1
            curves = [[scale * line[name] for line in lines if name in line] for lines in runs]
            steps = range(1, min(map(len, curves)) + 1)
            for curve in curves:
                panel.plot(steps, curve[: len(steps)], color=colour, alpha=0.25, linewidth=1)
            mean = [fmean(values) for values in zip(*(curve[: len(steps)] for curve in curves), strict=True)]
            panel.plot(steps, mean, color=colour, linewidth=2, label=label)
            panel.set(xlabel="training step", title=title)
            panel.grid(alpha=0.3)
    axes[0].legend(loc="center right", fontsize=8)  # between the curves
    figure.suptitle("errand: the same channels and weights, with and without the gate")
    figure.tight_layout()
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target)
    plt.close(figure)


if __name__ == "__main__":
    main()
