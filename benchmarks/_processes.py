"""The processes below this one and their memory, as Linux reports them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Adopt processes whose parent dies from now on, so that none is overlooked."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def living_below(pid: int) -> dict[int, str]:
    """Return the command lines of the living processes below one, by id."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, parent, *_ = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            if state != "Z":
                parents[int(name)] = int(parent)
    found, waiting = set(), {pid}
    while waiting:
        waiting = {child for child, parent in parents.items() if parent in waiting}
        found |= waiting
    return {child: _command(child) for child in found}


def is_browser(command: str) -> bool:
    """Return whether a command line is that of Chromium's main process."""
    return "--remote-debugging-pipe" in command and "--type=" not in command


def is_renderer(command: str) -> bool:
    """Return whether a command line is that of a Chromium process for pages."""
    return "--type=renderer" in command


def is_driver(command: str) -> bool:
    """Return whether a command line is that of Playwright's driver."""
    return "run-driver" in command


def memory_mb(pid: int) -> float:
    """Return a process's proportional share of memory (PSS); 0 for a process that is gone."""
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0) / 1024


def _command(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
