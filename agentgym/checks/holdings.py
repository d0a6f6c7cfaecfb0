"""What a process holds: threads, temporary files, open files, child processes. Knows no check."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path


def held() -> dict[str, int]:
    """Return how many of each this process holds, as far as the system lets one see."""
    counts = {"threads": threading.active_count(), "temporary files": len(list(Path(tempfile.gettempdir()).iterdir()))}
    own = Path("/proc/self")
    if (own / "fd").is_dir():
        counts["open files"] = len(os.listdir(own / "fd"))
    tasks = own / "task"
    if tasks.is_dir():
        counts["child processes"] = sum(len(_read(task / "children").split()) for task in tasks.iterdir())
    return counts


def grown(before: Mapping[str, int], after: Mapping[str, int], least: int) -> dict[str, int]:
    """Return by how much each has grown, of those that have grown by `least` or more."""
    growth = {name: after[name] - count for name, count in before.items()}
    return {name: more for name, more in growth.items() if more >= least}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
