"""Browsers that die under a web environment."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def kill_browsers() -> None:
    """Kill every Chromium below this process."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = (int(rest.split()[1]), name)
    for pid, (_, name) in parents.items():
        if "(chrom" in name and _is_below(pid, parents):
            os.kill(pid, signal.SIGKILL)


def _is_below(pid: int, parents: dict[int, tuple[int, str]]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid][0]
    return pid == os.getpid()
