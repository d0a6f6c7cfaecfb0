"""Count leftovers of a process on Linux: processes, threads, descriptors, temporary files, mounts."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

COUNTED = ("processes", "threads", "descriptors", "temporary_files", "mounts")
"""Counts that must not grow; memory may grow within a bound."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of all orphaned descendants, so that they are counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@contextmanager
def private_temporary_folder() -> Iterator[None]:
    """Create temporary files in a private folder, so that files of other processes are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        Path(folder).chmod(0o711)
        yield


def living_below(pid: int) -> set[int]:
    """Return the ids of living descendants of a process."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, parent, *_ = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            if state != "Z":
                parents[int(name)] = int(parent)
    below, generation = set[int](), {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        below |= generation
    return below


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
    """Return the state once no count exceeds `before`, or after `patience_s` seconds."""
    until = time.monotonic() + patience_s
    while any((now := state())[name] > before[name] for name in COUNTED) and time.monotonic() < until:
        time.sleep(0.2)
    return now


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of each count."""
    return {name: after[name] - before[name] for name in before}
