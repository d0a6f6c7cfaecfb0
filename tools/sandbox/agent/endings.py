"""How a session says that a cell has ended, so that nothing else that writes to the same connection can say it.

With every cell the agent sends a fresh secret. The session leaves it in the kernel's queue until the cell is over, and
then gives it back with the exit code. While the cell runs, the secret is in the memory of no process but the agent's:
what a cell, a thread or a child writes to the connection is not taken for the end of a cell, of this one or a later
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
        connection: A socket to the session, which waits for nothing when it is read; not closed here.
    """

    def __init__(self, connection: socket.socket):
        self.fd = connection.fileno()
        self.exit_code: int | None = None
        """Of the last cell that has ended; `None` as long as one runs."""
        self.open = True
        """Whether the session can still say something."""
        self._connection = connection
        self._secret = b""
        self._came = bytearray()
        self._noise = 0

    @property
    def flooded(self) -> bool:
        """Whether so much came that is no end of a cell that the session is to end."""
        return self._noise > _MOST_NOISE

    def expect(self) -> bytes:
        """Begin to wait for the end of a new cell; return what the session needs for saying it, to be sent last."""
        self._secret = os.urandom(SECRET_BYTES // 2).hex().encode("ascii")
        self.exit_code = None
        self._came.clear()
        self._noise = 0
        return self._secret

    def read(self) -> bool:
        """Take what has come; return whether the cell has ended."""
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
        self._came += data
        at = self._came.find(self._secret)
        if at < 0:
            del self._came[: -SECRET_BYTES - _LONGEST]
            return False
        found = _END.match(self._came, at + SECRET_BYTES)
        if found is None:
            return False
        self.exit_code = int(found[1]) & 0xFF
        return True


def say(connection: socket.socket, exit_code: int) -> None:
    """In a Python session, after a cell: say that it has ended. A shell does the same in its own words."""
    secret = b""
    while len(secret) < SECRET_BYTES:
        piece = receive(connection, SECRET_BYTES - len(secret))
        if not piece:
            return
        secret += piece
    connection.sendall(b"%b %d\0" % (secret, exit_code))


def receive(connection: socket.socket, size: int) -> bytes:
    """Wait for at most so many bytes, also where a cell has made the connection one that nobody waits for."""
    while True:
        try:
            return connection.recv(size)
        except BlockingIOError:
            connection.setblocking(True)
