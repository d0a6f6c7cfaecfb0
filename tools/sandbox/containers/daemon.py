"""The connection to a Docker daemon, with deadlines, and errors told as ours.

Nothing here knows what runs in the containers.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentgym.errors import InfrastructureError, require

if TYPE_CHECKING:
    from docker import APIClient


class DockerUnavailable(InfrastructureError):
    """No Docker daemon answers."""


class Daemon:
    """One Docker daemon: a quick connection for most calls, and a patient one on which containers are made.

    Daemons answer late when many containers are made at once. So making them has a deadline of its own, far from
    that of anything else, and only `creating` are made at one time.
    """

    def __init__(
        self, host: str | None = None, *, creating: int = 4, create_s: float = 120.0, call_s: float = 30.0
    ) -> None:
        """Remember where the daemon is; the first use connects.

        Args:
            host: Such as `unix:///run/docker.sock`; by default what `DOCKER_HOST` or Docker itself says.
            creating: Containers made at the same time.
            create_s: Deadline of making and starting one container, waiting for others not included.
            call_s: Deadline of every other call.
        """
        require("docker", "docker")
        self.host = host
        self.create_s = create_s
        self.call_s = call_s
        self.creating = threading.BoundedSemaphore(creating)
        self._clients: dict[tuple[int, float], APIClient] = {}
        self._lock = threading.Lock()

    @property
    def api(self) -> APIClient:
        """Return the connection for quick calls."""
        return self._client(self.call_s)

    @property
    def maker(self) -> APIClient:
        """Return the connection for making containers."""
        return self._client(self.create_s)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _client(self, timeout_s: float) -> APIClient:
        # A forked child must not speak on its parent's connections.
        key = (os.getpid(), timeout_s)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._connect(timeout_s)
            return self._clients[key]

    def _connect(self, timeout_s: float) -> APIClient:
        from docker import APIClient
        from docker.constants import DEFAULT_UNIX_SOCKET
        from docker.errors import DockerException
        from docker.utils import kwargs_from_env

        options = kwargs_from_env()
        if self.host is not None:
            options["base_url"] = self.host
        where = options.get("base_url", DEFAULT_UNIX_SOCKET.replace("http+unix", "unix"))
        try:
            _knock(where, timeout_s)
            return APIClient(version="auto", timeout=max(1, round(timeout_s)), max_pool_size=32, **options)
        except (DockerException, OSError) as error:
            raise DockerUnavailable(
                f"no Docker daemon answers at {where}: {_first_line(error)}; "
                "start Docker, or set DOCKER_HOST to where it listens"
            ) from error


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn every error of the Docker SDK into one line of ours that begins with `what`."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise InfrastructureError(f"{what}: {_first_line(error)}") from error


def _knock(url: str, timeout_s: float) -> None:
    """Find out whether somebody listens: the SDK leaves its socket open if nobody does."""
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(timeout_s)
            trial.connect(url.removeprefix("unix://"))


def _first_line(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None) or str(error) or type(error).__name__
    return str(explanation).strip().partition("\n")[0][:300]
