"""Removing containers: bounded and retried, because daemons sometimes hang at it, and out of everybody's way."""

from __future__ import annotations

import logging
import queue
import threading
import time

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon

_log = logging.getLogger(__name__)
_TRIES = 3
_THREADS = 4


def remove(daemon: Daemon, container: str) -> None:
    """Kill and remove a container with all that runs in it; one that is gone already is fine.

    Raises:
        InfrastructureError: If it is still there after several tries.
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
            # The daemon is removing it already: a container ends itself as soon as its input is closed.
            if error.status_code == 409:
                return
            problem = str(error.explanation or error)
        except (RequestException, OSError) as error:
            problem = str(error) or type(error).__name__
        else:
            return
        time.sleep(0.2 * 2**attempt)
    raise InfrastructureError(
        f"container {container[:12]} could not be removed: {problem}; try: docker rm -f {container[:12]}"
    )


class Remover:
    """Removes containers in the background. A container that stays is said in the log, and left to `doctor --clean`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._left = 0
        self._threads = 0
        self._change = threading.Condition()

    def remove(self, container: str) -> None:
        """Have a container removed soon; never waits and never fails."""
        with self._change:
            self._left += 1
            if self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._run, name="agentgym-docker-remove", daemon=True).start()
        self._waiting.put(container)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all are removed; return whether they are."""
        with self._change:
            return self._change.wait_for(lambda: self._left == 0, timeout_s)

    def _run(self) -> None:
        while True:
            container = self._waiting.get()
            try:
                remove(self._daemon, container)
            except InfrastructureError as error:
                _log.warning("%s", error)
            with self._change:
                self._left -= 1
                self._change.notify_all()
