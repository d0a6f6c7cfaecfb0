"""The connection to a Docker daemon, with timeouts and error translation.

It is independent of the programs in the containers.
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

_NO_NETWORK = "http+docker://"
"""How the SDK begins the address of a daemon behind a socket, a pipe or SSH."""


class DockerUnavailable(InfrastructureError):
    """No Docker daemon responds."""


class Daemon:
    """One Docker daemon, with a connection for quick calls and one with a long timeout for creating containers.

    Daemons respond slowly while they create many containers. So creation has a separate, much longer timeout
    than other calls, and only `creating` containers are created at a time.
    """

    def __init__(
        self, host: str | None = None, *, creating: int = 4, create_s: float = 120.0, call_s: float = 30.0
    ) -> None:
        """Configure the connection; the first use connects.

        Args:
            host: For example `unix:///run/docker.sock`; by default `DOCKER_HOST` or Docker's default.
            creating: Containers created concurrently.
            create_s: Timeout for creating and starting one container, without waiting for others.
            call_s: Timeout for every other call.
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
        """Return the connection for creating containers."""
        return self._client(self.create_s)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _client(self, timeout_s: float) -> APIClient:
        # A forked child must not use its parent's connections.
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
            _check_listening(where, timeout_s)
            client = APIClient(version="auto", timeout=max(1, round(timeout_s)), max_pool_size=32, **options)
        except (DockerException, OSError) as error:
            raise DockerUnavailable(
                f"no Docker daemon responds at {where}: {_first_line(error)}; "
                "start Docker, or set DOCKER_HOST to its address"
            ) from error
        if client.base_url.startswith(_NO_NETWORK):
            # No proxy is in between. To look for one, requests would read the environment at each call, which breaks in
            # one thread if another one changes it meanwhile.
            client.trust_env = False
        return client


@contextmanager
def docker_errors(what: str) -> Iterator[None]:
    """Convert every error of the Docker SDK to an `InfrastructureError` of one line that starts with `what`."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise InfrastructureError(f"{what}: {_first_line(error)}") from error


def _check_listening(url: str, timeout_s: float) -> None:
    """Check that something listens there: the SDK would leak a socket if nothing does."""
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(timeout_s)
            trial.connect(url.removeprefix("unix://"))


def _first_line(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None) or str(error) or type(error).__name__
    return str(explanation).strip().partition("\n")[0][:300]
