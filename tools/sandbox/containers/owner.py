"""Whose container it is, so that those of processes that died can be removed, and no others."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon, told
from agentgym.tools.sandbox.containers.removal import remove

LABEL = "agentgym"
OWNER_LABEL = "agentgym.owner"


def owner() -> str:
    """Return what names this process: its id, when it started, and where ids mean the same."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_place()}"


def is_gone(owner_label: str) -> bool:
    """Return whether that process has ended. Of processes that cannot be seen from here, never."""
    pid, _, rest = owner_label.partition("-")
    started, _, place = rest.partition("-")
    if place != _place() or not pid.isdigit() or int(pid) == 0:
        return False
    return _started(int(pid)) != started


def labels() -> dict[str, str]:
    """Return the labels of a container of this process."""
    return {LABEL: "1", OWNER_LABEL: owner()}


def abandoned(daemon: Daemon) -> list[str]:
    """Return the ids of the containers whose process has ended."""
    with told("cannot list containers"):
        found = daemon.api.containers(all=True, filters={"label": f"{LABEL}=1"})
    return [each["Id"] for each in found if is_gone(each["Labels"].get(OWNER_LABEL, ""))]


def reap(daemon: Daemon) -> list[str]:
    """Remove the containers whose process has ended; return the ids of those that are removed."""
    removed = []
    for container in abandoned(daemon):
        try:
            remove(daemon, container)
        except InfrastructureError:
            # Another process may be reaping too, or the daemon is stuck on this one; the others must go all the same.
            continue
        removed.append(container)
    return removed


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's own unit; empty if there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return "" if Path("/proc/self").exists() else _alive(pid)
    # The name stands in parentheses and may itself contain them.
    state, *numbers = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else numbers[18]


def _alive(pid: int) -> str:
    """Return the same where the system has no /proc: only whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"


def _place() -> str:
    """Return the host and the space of process ids: containers on one host have equal ids for different processes."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        space = "0"
    return f"{space}.{socket.gethostname()}"
