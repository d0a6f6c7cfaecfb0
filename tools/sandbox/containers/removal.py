"""Removes containers in the background, with timeouts and retries, because daemons sometimes hang."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors

_log = logging.getLogger(__name__)
_TRIES = 3
_THREADS = 4
_GONE_S = 10
"""How long to wait for a removal that the daemon has begun."""


def remove(daemon: Daemon, container: str) -> None:
    """Kill and remove a container; does nothing if it is already gone.

    Raises:
        InfrastructureError: If it still exists after several attempts.
    """
    from docker.errors import APIError, NotFound
    from requests.exceptions import RequestException

    problem = ""
    for attempt in range(_TRIES):
        try:
            daemon.api.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            # The daemon is already removing it: a container exits as soon as its stdin closes.
            if error.status_code == 409:
                return _wait_until_gone(daemon, container)
            problem = str(error.explanation or error)
        except (RequestException, OSError) as error:
            problem = str(error) or type(error).__name__
        else:
            return
        time.sleep(0.2 * 2**attempt)
    raise InfrastructureError(
        f"container {container[:12]} could not be removed: {problem}; try: docker rm -f {container[:12]}"
    )


def _wait_until_gone(daemon: Daemon, container: str) -> None:
    """Wait for a removal in progress, but not for long: the daemon finishes it anyway."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    with suppress(DockerException, RequestException, OSError):  # such as NotFound
        daemon.api.wait(container, timeout=_GONE_S, condition="removed")


def try_to_remove(daemon: Daemon, container: str) -> None:
    """Remove a container as `remove` does. A failure is logged, and left to `doctor --clean`."""
    try:
        remove(daemon, container)
    except InfrastructureError as error:
        _log.warning("%s", error)


class Remover:
    """Removes containers in the background. Failures are logged, and left to `doctor --clean`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._pending = 0
        self._threads = 0
        self._change = threading.Condition()

    def remove(self, container: str) -> None:
        """Schedule a container's removal; never blocks and never fails."""
        with self._change:
            self._pending += 1
            if self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._run, name="agentgym-docker-remove", daemon=True).start()
        self._waiting.put(container)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all removals are done; return whether they are."""
        with self._change:
            return self._change.wait_for(lambda: self._pending == 0, timeout_s)

    def _run(self) -> None:
        while True:
            container = self._waiting.get()
            try:
                try_to_remove(self._daemon, container)
            except Exception:  # of libraries; the thread has others to remove
                _log.exception("container %s could not be removed", container[:12])
            with self._change:
                self._pending -= 1
                self._change.notify_all()


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
