"""The agent's end of the connection to the driver: one frame in, one frame out, over descriptors nobody else has."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence

from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.child import close_others
from agentgym.tools.sandbox.agent.follow import DriverGone

_CHUNK = 1 << 18
_MAX_FDS = 1 << 16


class Control:
    """A connected stream: one socket, or the two ends of two pipes."""

    def __init__(self, read_fd: int, write_fd: int):
        self.read_fd = read_fd
        self.write_fd = write_fd

    def receive(self) -> wire.Frame:
        """Wait for the next frame; raise `DriverGone` at the end of the connection."""
        reading = wire.decoder()
        wanted = next(reading)
        while True:
            try:
                wanted = reading.send(self._exactly(wanted))
            except StopIteration as done:
                return done.value

    def send(self, header: wire.Header, blobs: Sequence[bytes] = ()) -> None:
        """Send a frame."""
        view = memoryview(wire.encode(header, blobs))
        try:
            while view:
                view = view[os.write(self.write_fd, view) :]
        except OSError:
            raise DriverGone from None

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            try:
                got = os.readv(self.read_fd, [view[at : at + _CHUNK]])
            except OSError:
                got = 0
            if not got:
                raise DriverGone
            at += got
        return bytes(data)


def take_over(read_fd: int, write_fd: int, also: Iterable[int] = ()) -> Control:
    """Make these two, and those in `also`, the only descriptors of this process; 0, 1 and 2 lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    same = read_fd == write_fd
    read_fd = fcntl.fcntl(read_fd, fcntl.F_DUPFD_CLOEXEC, 3)
    write_fd = read_fd if same else fcntl.fcntl(write_fd, fcntl.F_DUPFD_CLOEXEC, 3)
    for fd in range(3):
        os.dup2(null, fd)
    close_others([0, 1, 2, *sorted({read_fd, write_fd, *also})], _MAX_FDS)
    return Control(read_fd, write_fd)
