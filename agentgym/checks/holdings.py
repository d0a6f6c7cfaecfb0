"""Count the resources a process holds: threads, temporary files, open files, child processes. Depends on no check."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path


def resources() -> dict[str, int]:
    """Return how many resources of each kind this process holds, where the system exposes the number."""
    counts = {"threads": threading.active_count(), "temporary files": len(list(Path(tempfile.gettempdir()).iterdir()))}
    own = Path("/proc/self")
    if (own / "fd").is_dir():
        counts["open files"] = len(os.listdir(own / "fd"))
    tasks = own / "task"
    if tasks.is_dir():
        counts["child processes"] = sum(len(_read(task / "children").split()) for task in tasks.iterdir())
    return counts


def grown(before: Mapping[str, int], after: Mapping[str, int], least: int) -> dict[str, int]:
    """Return the growth of each resource whose count grew by `least` or more."""
    growth = {name: after[name] - count for name, count in before.items()}
    return {name: more for name, more in growth.items() if more >= least}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
