"""The learning curve of a training run, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from agentgym.eval.summary import Rate

mpl.use("Agg")

_SMOOTHING = 5
"""Steps in the running mean that is drawn over the raw values."""


def draw_curve(
    path: Path, runs: Mapping[str, Sequence[Mapping[str, Any]]], held_out: Mapping[str, tuple[Rate, Rate]], title: str
) -> None:
    """Draw success on training trajectories, and held-out success before and after training.

    Args:
        path: The PNG file to write.
        runs: Maps labels to the lines of a metrics file.
        held_out: Maps labels to held-out success before and after training.
        title: Title of the plot.
    """
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=150)
    for label, lines in runs.items():
        steps = [line["step"] for line in lines if "success" in line]
        values = [100 * line["success"] for line in lines if "success" in line]
        if not steps:
            continue
        [curve] = axes.plot(steps, _smooth(values), linewidth=2, label=f"{label}: sampled in training")
        axes.plot(steps, values, color=curve.get_color(), alpha=0.25, linewidth=1)
        for x, rate in zip((0, steps[-1]), held_out.get(label, ()), strict=False):
            name = f"{label}: held-out tasks, 95 % interval" if x == 0 else None
            _draw_rate(axes, x, rate, curve.get_color(), name)
    axes.set(xlabel="training step", ylabel="solved tasks (%)", title=title, ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _draw_rate(axes: Any, x: float, rate: Rate, color: Any, name: str | None) -> None:
    if rate.success is None or rate.interval is None:
        return
    # Older results may differ from the rate by rounding.
    low, high = (max(0.0, 100 * arm) for arm in (rate.success - rate.interval.low, rate.interval.high - rate.success))
    axes.errorbar(x, 100 * rate.success, yerr=[[low], [high]], fmt="o", capsize=4, color=color, label=name)


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the running mean over the last few values, for each value."""
    return [fmean(values[max(0, end - _SMOOTHING) : end]) for end in range(1, len(values) + 1)]
