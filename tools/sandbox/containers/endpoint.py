"""The driver's end of the connection to a container's program: a socket for its stdout and stdin."""

from __future__ import annotations

import socket
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors
from agentgym.tools.sandbox.containers.stream import HEADER, STDOUT

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
