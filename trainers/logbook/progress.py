"""The terminal output of a training run: one line per step, and progress bars."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
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

_BETWEEN_S = 1.0
"""Least seconds between two lines of a log about unfinished work."""
_SILENCE_S = 4.0
"""Seconds without output after which a log gets a line about the work in progress."""


class RunProgress:
    """Shows bars and the table of steps; use as a context manager.

    In a log, where bars cannot move, a line at least every five seconds says what is being done.

    Args:
        console: Where to print.
        clock: Returns the time in seconds.
        report: Called with a description of the work in progress whenever it progresses.
    """

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = lambda text: None,
    ):
        self.console, self._clock, self._report = console, clock, report
        self._bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=2,
        )
        self._ids: dict[str, TaskID] = {}
        self._work = _Work("", 0, 1, "")
        self._printed = self._began = clock()
        self._lines = 0
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._bars.start()
        if not self.console.is_terminal:
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._bars.stop()

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        """Show that `done` of `of` units of `what` are done (`warm_start.settings.Progress`)."""
        if what not in self._ids:
            self._ids[what] = self._bars.add_task(escape(what), total=of, note="")
        self._bars.update(self._ids[what], completed=done, total=of, note=escape(note))
        before, self._work = self._work, _Work(what, done, of, note)
        self._report(self._work.text)
        if before.what != what:
            self._began = self._clock()
        is_new = self._work.tenth != (before.tenth if before.what == what else 0)
        if not self.console.is_terminal and is_new and (done >= of or self._clock() - self._printed >= _BETWEEN_S):
            self._note()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            self.remind()

    def remind(self) -> None:
        """Print a line about the work in progress, unless there has just been output."""
        now = self._clock()
        if self._work.what and now - self._printed > _SILENCE_S:
            self._note(now - self._began)

    def _note(self, seconds: float | None = None) -> None:
        since = "" if seconds is None else f" ({seconds:.0f} s{self._work.left_text(seconds)})"
        self._print(f"[dim]{escape(self._work.text)}{since}")

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        self.console.print(text, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._printed = self._clock()
        self.console.print(text)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the metrics of a step, with headings every twenty lines."""
        columns = [column for column in _COLUMNS if column[0] in metrics]
        if self._lines % 20 == 0:
            self._print("[dim]" + " ".join(["step", *(f"{heading:>7}" for _, heading, _ in columns)]))
        self._lines += 1
        values = (f"{form.format(metrics[name]):>7}" for name, _, form in columns)
        self._print(" ".join([f"{step:>4}", *values]))


@dataclass(frozen=True)
class _Work:
    """The work in progress (`Progress`)."""

    what: str
    done: int
    of: int
    note: str

    @property
    def tenth(self) -> int:
        return 10 * self.done // max(self.of, 1)

    def left_text(self, seconds: float) -> str:
        """Return the estimated time left, after some seconds of this work."""
        if not 0 < self.done < self.of:
            return ""
        left_s = seconds * (self.of - self.done) / self.done
        return f", about {left_s:.0f} s left" if left_s < 90 else f", about {left_s / 60:.0f} min left"

    @property
    def text(self) -> str:
        count = f": {self.done} of {self.of}" if self.of > 1 else " …" if self.done < self.of else ""
        return f"{self.what}{count}" + (f", {self.note}" if self.note else "")


class Stopwatch:
    """Measures the seconds between laps."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds
