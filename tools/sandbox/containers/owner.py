"""Labels containers with their owner process, so that only those of dead processes are removed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors
from agentgym.tools.sandbox.containers.removal import remove

LABEL = "agentgym"
OWNER_LABEL = "agentgym.owner"


def owner() -> str:
    """Return an identifier of this process: its id, start time, and PID namespace."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_place()}"


def is_gone(owner_label: str) -> bool:
    """Return whether that process has exited; false for processes that are not visible from here."""
    pid, _, rest = owner_label.partition("-")
    started, _, place = rest.partition("-")
    if place != _place() or not pid.isdigit() or int(pid) == 0:
        return False
    return _started(int(pid)) != started


def labels() -> dict[str, str]:
    """Return the labels for this process's containers."""
    return {LABEL: "1", OWNER_LABEL: owner()}


def abandoned(daemon: Daemon) -> list[str]:
    """Return the ids of the containers whose process has exited."""
    with docker_errors("cannot list containers"):
        containers = daemon.api.containers(all=True, filters={"label": f"{LABEL}=1"})
    return [container["Id"] for container in containers if is_gone(container["Labels"].get(OWNER_LABEL, ""))]


def reap(daemon: Daemon) -> list[str]:
    """Remove the containers whose process has exited; return the ids of the removed ones."""
    removed = []
    for container in abandoned(daemon):
        try:
            remove(daemon, container)
        except InfrastructureError:
            # Another process may remove it too, or the daemon is stuck on it; continue with the others.
            continue
        removed.append(container)
    return removed


def _started(pid: int) -> str:
    """Return a process's start time in the kernel's unit; empty if it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return "" if Path("/proc/self").exists() else _alive(pid)
    # The name is in parentheses and may contain parentheses itself.
    state, *numbers = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else numbers[18]


def _alive(pid: int) -> str:
    """Like `_started`, for systems without /proc: only reports whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass  # it exists, and belongs to another user
    return "running"


def _place() -> str:
    """Return the host and the PID namespace: containers on a host can reuse ids for different processes."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        space = "0"
    return f"{space}.{socket.gethostname()}"
