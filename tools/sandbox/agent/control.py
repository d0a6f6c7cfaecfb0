"""The agent's end of the connection to the driver: one frame in, one frame out, over private descriptors."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence

from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.child import MAX_FDS, close_others
from agentgym.tools.sandbox.agent.follow import DriverGone

_FIRST, _CHUNK = 1 << 14, 1 << 18
_MAX_FDS = 1 << 16


class Control:
    """A connected stream: one socket, or two pipe ends."""

    def __init__(self, read_fd: int, write_fd: int):
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._buffer = bytearray()

    @property
    def waiting(self) -> bool:
        """Whether more data than the last frame has already arrived."""
        return bool(self._buffer)

    def receive(self) -> wire.Frame:
        """Wait for the next frame; raises `DriverGone` when the connection is closed."""
        reading = wire.decoder()
        size = next(reading)
        while True:
            try:
                size = reading.send(self._exactly(size))
            except StopIteration as done:
                return done.value

    def send(self, header: wire.Header, blobs: Sequence[bytes] = ()) -> None:
        """Send a frame."""
        self.write(wire.encode(header, blobs))

    def write(self, frame: bytes) -> None:
        """Send an encoded frame."""
        view = memoryview(frame)
        try:
            while view:
                view = view[os.write(self.write_fd, view) :]
        except OSError:
            raise DriverGone from None

    def _exactly(self, size: int) -> bytes:
        buffer = self._buffer
        while len(buffer) < size:
            try:
                piece = os.read(self.read_fd, max(_FIRST, min(size - len(buffer), _CHUNK)))
            except OSError:
                piece = b""
            if not piece:
                raise DriverGone
            buffer += piece
        with memoryview(buffer) as view:
            data = bytes(view[:size])
        del buffer[:size]
        return data


def take_over(read_fd: int, write_fd: int) -> Control:
    """Close all other descriptors of this process, and point 0, 1 and 2 at /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    same = read_fd == write_fd
    read_fd = fcntl.fcntl(read_fd, fcntl.F_DUPFD_CLOEXEC, 3)
    write_fd = read_fd if same else fcntl.fcntl(write_fd, fcntl.F_DUPFD_CLOEXEC, 3)
    for fd in range(3):
        os.dup2(null, fd)
    close_others([0, 1, 2, *sorted({read_fd, write_fd})], _MAX_FDS)
    read_fd, write_fd = _lowered(read_fd), write_fd if same else _lowered(write_fd)
    return Control(read_fd, read_fd if same else write_fd)


def inherit(connection: int, *others: int) -> list[int]:
    """In a fork of a zygote, close all descriptors except 0, 1, 2 and these; return their new numbers."""
    close_others([0, 1, 2, *sorted({connection, *others})], _MAX_FDS)
    return [_lowered(fd) for fd in (connection, *others)]


def _lowered(fd: int) -> int:
    """Move a descriptor to a number that is closed in the processes of runs, and return the number."""
    if fd < MAX_FDS:
        return fd
    low = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return low
