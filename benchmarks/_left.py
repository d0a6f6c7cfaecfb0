"""Counts what a process could leave behind: processes, threads, descriptors, temporary files, mounts, memory."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks._processes import living_below

COUNTED = ("processes", "threads", "descriptors", "temporary_files", "mounts")
"""Those that must be as before; memory may grow within a bound."""


def state() -> dict[str, int]:
    """Count everything that this process could leave behind."""
    gc.collect()
    return {
        "processes": len(living_below(os.getpid())),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "temporary_files": len(os.listdir(tempfile.gettempdir())),
        "mounts": len(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()),
        "memory_kb": int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4,
    }


def settled(before: Mapping[str, int], patience_s: float) -> dict[str, int]:
    """Return the state once it is no more than `before`, or after `patience_s` seconds."""
    return waited_for(lambda now: all(now[name] <= before[name] for name in COUNTED), patience_s)


def waited_for(is_enough: Callable[[dict[str, int]], bool], patience_s: float) -> dict[str, int]:
    """Return the first state that is enough, or the last one before patience ends."""
    until = time.monotonic() + patience_s
    while not is_enough(now := state()) and time.monotonic() < until:
        time.sleep(0.2)
    return now


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return how much more there is after than before."""
    return {name: after[name] - before[name] for name in before}
