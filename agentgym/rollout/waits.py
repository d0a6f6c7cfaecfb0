"""Records what each running trajectory waits for and since when, to explain hangs.

`kill -USR1 PID` prints a report for all rollouts of a process, and so does an outage.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import suppress
from weakref import WeakSet

from agentgym.rollout.turns import TurnGate

_all: WeakSet[Waits] = WeakSet()
SHOWN = 100
"""Waits that a report lists, the longest first."""


class Waits:
    """The waits of one rollout, by trajectory."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}
        self.turns = TurnGate()
        """Holds the trajectories between two turns, if it is closed."""
        _all.add(self)

    def begin(self, trajectory: str, on: str) -> None:
        """Note that a trajectory starts to wait for something."""
        self._since[trajectory] = on, time.monotonic()

    def end(self, trajectory: str) -> None:
        """Note that a trajectory no longer waits."""
        self._since.pop(trajectory, None)

    def report(self) -> str:
        """Return one line per waiting trajectory, the longest wait first."""
        now = time.monotonic()
        waits = sorted((since, trajectory, on) for trajectory, (on, since) in self._since.copy().items())
        lines = [f"{now - since:8.1f} s  {trajectory}  waits for {on}" for since, trajectory, on in waits[:SHOWN]]
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
