"""Removes containers in the background, with timeouts and retries, because daemons sometimes hang."""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import suppress

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon

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
