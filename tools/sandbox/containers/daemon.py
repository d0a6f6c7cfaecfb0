"""The connection to a Docker daemon, with timeouts and error translation.

It is independent of the programs in the containers.
"""

from __future__ import annotations

import json
import os
import re
import socket
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import InfrastructureError, UsageError, require

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


HEADER = 8
STDOUT = 1


class Demultiplexer:
    """Accepts data cut anywhere, and passes on the pieces with the number of their stream."""

    def __init__(self, take: Callable[[int, bytes], None]) -> None:
        self._take = take
        self._header = bytearray()
        self._stream = 0
        self._remaining = 0

    def feed(self, data: bytes) -> None:
        """Process received data."""
        view = memoryview(data)
        while view:
            if self._remaining == 0:
                view = self._take_header(view)
                continue
            piece, view = view[: self._remaining], view[self._remaining :]
            self._remaining -= len(piece)
            self._take(self._stream, bytes(piece))

    def _take_header(self, view: memoryview) -> memoryview:
        missing = HEADER - len(self._header)
        self._header += view[:missing]
        if len(self._header) == HEADER:
            self._stream = self._header[0]
            self._remaining = int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


def image_from_rootfs(path: Path | str, name: str | None = None, *, daemon: Daemon | None = None) -> str:
    """Create an image from a root file system and return its name.

    Args:
        path: A folder with `bin`, `usr`, … or a tar file of one.
        name: The image's name; by default derived from the file name.
        daemon: The daemon; by default Docker's default.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"the root file system {str(path)!r} does not exist")
    repository, _, tag = (name or _name_for(path)).partition(":")
    tag = tag or "latest"
    daemon = daemon or Daemon()
    if path.is_file():
        _import(daemon, path, repository, tag)
    else:
        with tempfile.NamedTemporaryFile(suffix=".tar") as packed:
            _pack(path, Path(packed.name))
            _import(daemon, Path(packed.name), repository, tag)
    return f"{repository}:{tag}"


def has_image(daemon: Daemon, image: str) -> bool:
    """Return whether the daemon has this image."""
    from docker.errors import NotFound

    with docker_errors(f"cannot look up image {image!r}"):
        try:
            daemon.api.inspect_image(image)
        except NotFound:
            return False
    return True


def environment_of(daemon: Daemon, image: str) -> dict[str, str]:
    """Return the environment variables that an image sets."""
    with docker_errors(f"cannot look up image {image!r}"):
        variables = daemon.api.inspect_image(image)["Config"].get("Env") or []
    return dict(variable.split("=", 1) for variable in variables if "=" in variable)


def _name_for(path: Path) -> str:
    stem = path.resolve().name.removesuffix(".gz").removesuffix(".tar")
    return "agentgym-" + (re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "rootfs")


def _import(daemon: Daemon, packed: Path, repository: str, tag: str) -> None:
    what = f"cannot import {repository}:{tag}"
    changes = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    with docker_errors(what):
        answer = daemon.maker.import_image_from_file(str(packed), repository=repository, tag=tag, changes=changes)
    # The status is 200 even if the import fails later.
    for line in filter(None, answer.splitlines()):
        problem = json.loads(line).get("error")
        if problem:
            raise InfrastructureError(f"{what}: {problem}")


def _pack(folder: Path, into: Path) -> None:
    """Pack a folder. Unless we are root, files on disk belong to whoever unpacked them; in the image, to root."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if os.geteuid() != 0:
            entry.uid = entry.gid = 0
        return entry

    with tarfile.open(into, "w") as archive:
        archive.add(folder, arcname=".", filter=owned)


_KEPT_OF_STDERR = 4000


class Attached(socket.socket):
    """A socket that strips Docker's stream headers and stderr, for blocking or asyncio use."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connection; the passed object is unusable afterwards."""
        super().__init__(connection.family, connection.type, connection.proto, connection.detach())
        self._header = bytearray()
        self._stream = 0
        self._remaining = 0
        self._stderr = bytearray()

    @property
    def stderr(self) -> str:
        """The end of the stderr received so far."""
        return self._stderr.decode("utf-8", "replace")

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive stdout, as `socket.recv` does."""
        buffer = bytearray(bufsize)
        return bytes(buffer[: self.recv_into(buffer)])

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive stdout, as `socket.recv_into` does."""
        view = memoryview(buffer)
        view = view[:nbytes] if nbytes else view
        while True:
            if self._remaining == 0 and not self._next_piece():
                return 0
            if self._remaining == 0:
                continue
            if self._stream == STDOUT:
                got = super().recv_into(view[: self._remaining])
                self._remaining -= got
                return got
            data = super().recv(min(self._remaining, 4096))
            if not data:
                return 0
            self._remaining -= len(data)
            self._stderr += data
            del self._stderr[:-_KEPT_OF_STDERR]

    def _next_piece(self) -> bool:
        """Receive the header of the next piece; false at the end of the connection."""
        while len(self._header) < HEADER:
            data = super().recv(HEADER - len(self._header))
            if not data:
                return False
            self._header += data
        self._stream, self._remaining = self._header[0], int.from_bytes(self._header[4:], "big")
        self._header.clear()
        return True


def attach(daemon: Daemon, container: str) -> Attached:
    """Connect to a container that has not been started yet, so that no output is missed."""
    with docker_errors(f"cannot attach to container {container[:12]}"):
        attached = daemon.maker.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        return Attached(raw_socket(attached))


def raw_socket(attached: Any) -> socket.socket:
    """Detach and return the socket inside a connection object of Docker's SDK."""
    connection = getattr(attached, "_sock", attached)
    if type(connection) is not socket.socket:
        raise InfrastructureError(
            "containers can only be used over unix:// and plain tcp:// connections; for a daemon on another machine, "
            "run there: agentgym serve sandbox --backend docker"
        )
    return socket.socket(connection.family, connection.type, connection.proto, connection.detach())
