"""How a session reports the end of a cell, so that no other writer to the same connection can forge it.

With every cell the agent sends a fresh secret. The session leaves it in the socket's queue until the cell is over, and
then returns it with the exit code. While the cell runs, only the agent's memory contains the secret:
data that a cell, a thread or a child writes to the connection is never mistaken for the end of this cell or a later
one.
"""

from __future__ import annotations

import os
import re
import socket

SECRET_BYTES = 16
_END = re.compile(rb" ([0-9]{1,3})\0")
_LONGEST = 5
_CHUNK = 1 << 14
_MOST_NOISE = 1 << 20


class CellEnd:
    """The agent's side: waits for the end of one cell at a time.

    Args:
        connection: A non-blocking socket to the session; not closed here.
    """

    def __init__(self, connection: socket.socket):
        self.fd = connection.fileno()
        self.exit_code: int | None = None
        """The exit code of the last cell; `None` while one runs."""
        self.open = True
        """Whether the session can still send data."""
        self._connection = connection
        self._secret = b""
        self._buffer = bytearray()
        self._noise = 0

    @property
    def flooded(self) -> bool:
        """Whether the session must be killed because it sent too much invalid data."""
        return self._noise > _MOST_NOISE

    def expect(self) -> bytes:
        """Start waiting for the end of a new cell; return the secret for the session, to be sent last."""
        self._secret = os.urandom(SECRET_BYTES // 2).hex().encode("ascii")
        self.exit_code = None
        self._buffer.clear()
        self._noise = 0
        return self._secret

    def read(self) -> bool:
        """Read the available data; return whether the cell has ended."""
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.open = False
            return False
        self._noise += len(data)
        self._buffer += data
        at = self._buffer.find(self._secret)
        if at < 0:
            del self._buffer[: -SECRET_BYTES - _LONGEST]
            return False
        match = _END.match(self._buffer, at + SECRET_BYTES)
        if match is None:
            return False
        self.exit_code = int(match[1]) & 0xFF
        return True


def say(connection: socket.socket, exit_code: int) -> None:
    """In a Python session, report the end of a cell. The shell session has its own implementation."""
    secret = b""
    while len(secret) < SECRET_BYTES:
        piece = receive(connection, SECRET_BYTES - len(secret))
        if not piece:
            return
        secret += piece
    connection.sendall(b"%b %d\0" % (secret, exit_code))


def receive(connection: socket.socket, size: int) -> bytes:
    """Wait for at most `size` bytes, even if a cell has made the connection non-blocking."""
    while True:
        try:
            return connection.recv(size)
        except BlockingIOError:
            connection.setblocking(True)
