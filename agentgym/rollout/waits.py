"""Records what each running trajectory waits for and since when, to explain hangs.

`kill -USR1 PID` prints a report for all rollouts of a process, and so does an outage.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakSet

from agentgym.rollout.turns import TurnGate

_all: WeakSet[Waits] = WeakSet()
SHOWN = 100
"""Waits that a report lists, the longest first."""


class _Wait(NamedTuple):
    since: float
    component: str
    of: str

    @property
    def text(self) -> str:
        return f"{self.component} ({self.of})" if self.of else self.component


@dataclass
class _Busy:
    """The time in which at least one trajectory waits for a component."""

    waiting: int = 0
    since: float = 0.0
    seconds: float = 0.0

    def until(self, now: float) -> float:
        return self.seconds + (now - self.since if self.waiting else 0.0)

    def change(self, by: int, now: float) -> None:
        self.seconds, self.since = self.until(now), now
        self.waiting += by


class Waits:
    """The waits of one rollout, by trajectory.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._waits: dict[str, _Wait] = {}
        self._busy: defaultdict[str, _Busy] = defaultdict(_Busy)
        self.turns = TurnGate()
        """Holds the trajectories between two turns, if it is closed."""
        _all.add(self)

    def begin(self, trajectory: str, component: str, of: str = "") -> None:
        """Note that a trajectory starts to wait for a component of something, such as the step of an environment."""
        self.end(trajectory)
        self._waits[trajectory] = _Wait(self._now(), component, of)
        self._busy[component].change(1, self._now())

    def end(self, trajectory: str) -> None:
        """Note that a trajectory no longer waits."""
        if (wait := self._waits.pop(trajectory, None)) is not None:
            self._busy[wait.component].change(-1, self._now())

    def seconds(self, component: str) -> float:
        """Return for how long at least one trajectory has waited for a component, since the rollout was made."""
        return self._busy[component].until(self._now()) if component in self._busy else 0.0

    def report(self) -> str:
        """Return one line per waiting trajectory, the longest wait first."""
        now = self._now()
        waits = sorted((wait.since, trajectory, wait) for trajectory, wait in self._waits.copy().items())
        lines = [
            f"{now - since:8.1f} s  {trajectory}  waits for {wait.text}" for since, trajectory, wait in waits[:SHOWN]
        ]
        if len(waits) > SHOWN:
            lines.append(f"… and {len(waits) - SHOWN} more")
        return "\n".join(lines) or "no trajectory waits for anything"


def report_all() -> str:
    """Return the report of every rollout of this process."""
    return "\n".join(waits.report() for waits in list(_all)) or "no rollout is running"


def report_on_signal() -> None:
    """Make `SIGUSR1` print the report to stderr, unless the process uses that signal itself."""
    if not hasattr(signal, "SIGUSR1") or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, _print_report)


def _print_report(*_: object) -> None:
    """Print the report of every rollout. An exception in a signal handler would interrupt the main thread."""
    with suppress(Exception):  # stderr may be missing
        sys.stderr.write(report_all() + "\n")
