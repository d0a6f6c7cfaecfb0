"""The terminal output of a training run: one line per step, and progress bars."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

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
