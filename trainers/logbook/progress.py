"""The terminal output of a training run: one line per step, and progress bars."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

import matplotlib as mpl
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agentgym.core.endings import Ending
from agentgym.eval.statistics import Interval, success_interval
from agentgym.eval.summary import Rate
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers

_COLUMNS = (
    ("reward", "reward", "{:.3f}"),
    ("success", "success", "{:.1%}"),
    ("entropy", "entropy", "{:.3f}"),
    ("kl_to_start", "KL", "{:.3f}"),
    ("turns", "turns", "{:.1f}"),
    ("tool_errors", "tool err", "{:.1%}"),
    ("truncated", "trunc", "{:.1%}"),
    ("failed", "failed", "{:.1%}"),
    ("tokens_per_second", "tok/s", "{:,.0f}"),
)
"""Metric, heading, format."""


class RunProgress:
    """Shows bars and the table of steps; use as a context manager."""

    def __init__(self, console: Console):
        self.console = console
        self._bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=2,
        )
        self._known: dict[str, TaskID] = {}
        self._tenths: dict[str, int] = {}
        self._lines = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, what: str, done: int, of: int) -> None:
        """Show that `done` of `of` units of `what` are done."""
        if what not in self._known:
            self._known[what] = self._bars.add_task(what, total=of)
        self._bars.update(self._known[what], completed=done, total=of)
        if not self.console.is_terminal:
            self._note(what, done, of)

    def _note(self, what: str, done: int, of: int) -> None:
        """Print a line per tenth, for log files."""
        tenth = 10 * done // max(of, 1)
        if tenth != self._tenths.get(what, 0):
            self.console.print(f"[dim]{what}: {done} of {of}", highlight=False)
        self._tenths[what] = tenth

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the metrics of a step, with headings every twenty lines."""
        columns = [column for column in _COLUMNS if column[0] in metrics]
        if self._lines % 20 == 0:
            self.console.print(
                "[dim]" + " ".join(["step", *(f"{heading:>7}" for _, heading, _ in columns)]), soft_wrap=True
            )
        self._lines += 1
        values = (f"{form.format(metrics[name]):>7}" for name, _, form in columns)
        self.console.print(" ".join([f"{step:>4}", *values]), highlight=False, soft_wrap=True)


class Stopwatch:
    """Measures the seconds between laps."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds


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
    low, high = (max(0.0, 100 * length) for length in _arms(rate.success, rate.interval))
    axes.errorbar(x, 100 * rate.success, yerr=[[low], [high]], fmt="o", capsize=4, color=color, label=name)


def _arms(success: float, interval: Interval) -> tuple[float, float]:
    """Return how far an interval reaches below and above. Older results may differ from the rate by rounding."""
    return success - interval.low, interval.high - success


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the running mean over the last few values, for each value."""
    return [
        sum(values[max(0, end - _SMOOTHING) : end]) / len(values[max(0, end - _SMOOTHING) : end])
        for end in range(1, len(values) + 1)
    ]


def batch_metrics(episodes: Sequence[EpisodeNumbers], credit: Credit) -> dict[str, float]:
    """Return metrics of one step with at least one episode.

    Failed episodes count only in `failed`, and by what failed in `failed/<component>`.
    """
    played = [e for e in episodes if not e.failed]
    metrics = {"failed": 1 - len(played) / len(episodes)}
    for component, count in Counter(e.component for e in episodes if e.failed and e.component).items():
        metrics[f"failed/{component}"] = count / len(episodes)
    if not played:
        return metrics
    calls = sum(e.counts.get("calls", 0) for e in played)
    turns = sum(len(e.model_turns) for e in played)
    rewards = credit.logged_rewards(episodes)
    metrics |= {
        "reward": fmean(reward for reward in rewards if reward is not None),
        "success": fmean(e.success for e in played),
        **_success_interval(played, group_numbers(played)),
        "turns": turns / len(played),
        "truncated": fmean(e.ending is Ending.TRUNCATED for e in played),
        "tool_errors": sum(e.counts.get("tool_errors", 0) for e in played) / max(1, calls),
        "cut_turns": sum(sum(e.cut_turns) for e in played) / max(1, turns),
        "format_errors": sum(e.counts.get("format_errors", 0) for e in played) / max(1, turns),
        "flat_groups": flat_groups(rewards, group_numbers(episodes)),
        "sampled_tokens": fmean(e.sampled_tokens for e in played if e.token_count),
    }
    for channel in played[0].channels[0] if played[0].channels else ():
        metrics[f"channel/{channel}"] = fmean(sum(turn.get(channel, 0.0) for turn in e.channels) for e in played)
    return metrics


def _success_interval(played: Sequence[EpisodeNumbers], groups: Sequence[int]) -> dict[str, float]:
    """Return the ends of the 95 % interval of the success on tasks such as these; groups are the units."""
    members: defaultdict[int, list[bool]] = defaultdict(list)
    for episode, group in zip(played, groups, strict=True):
        members[group].append(episode.success)
    low, high = success_interval(list(members.values()))
    return {"success/low": low, "success/high": high}


def flat_groups(rewards: Sequence[float | None], groups: Sequence[int]) -> float:
    """Return the share of groups whose rewards are all equal, which teach nothing."""
    members: defaultdict[int, set[float]] = defaultdict(set)
    for reward, group in zip(rewards, groups, strict=True):
        members[group] |= set() if reward is None else {reward}
    return fmean(len(values) < 2 for values in members.values())
