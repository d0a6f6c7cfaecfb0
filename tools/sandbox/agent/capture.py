"""Bounded capture of a run's output: keeps the beginning and the end, and counts the middle."""

from __future__ import annotations

import os

CHUNK = 1 << 16
FLOOD = 64
"""A run is stopped if it writes this many times the kept size to one stream."""


class Capture:
    """One stream: its read end, its kept bytes, and its total size.

    Args:
        fd: The read end, owned from now on.
        keep: Bytes to keep.
        tail: Whether to keep the beginning and the end with a note between them, or only the beginning.
    """

    def __init__(self, fd: int, keep: int, tail: bool = True):
        os.set_blocking(fd, False)
        self.fd = fd
        self.open = True
        self._tail = tail
        self.keep(keep)
        self._head = bytearray()
        self._end = bytearray()
        self._total = 0

    def keep(self, size: int) -> None:
        """Set the number of bytes to keep."""
        self._room = size
        self._tail_size = size // 2 if self._tail else 0
        self._head_size = size - self._tail_size

    @property
    def flooded(self) -> bool:
        """Whether the stream is so large that the run must be stopped."""
        return self._total > self._room * FLOOD + CHUNK

    def read(self) -> bool:
        """Read one available chunk; false if nothing is available (or the stream has ended)."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._keep(data)
        return True

    def drain(self) -> None:
        """Read everything that is available."""
        while self.open and not self.flooded and self.read():
            pass

    def take(self) -> tuple[bytes, int]:
        """Return the kept bytes, with a note where bytes were cut, and the number of bytes cut; then reset."""
        left_out = self._total - len(self._head) - len(self._end)
        note = b"\n[... %d bytes cut ...]\n" % left_out if left_out and self._tail_size else b""
        content = bytes(self._head) + note + bytes(self._end)
        self._head, self._end, self._total = bytearray(), bytearray(), 0
        return content, left_out

    def close(self) -> None:
        """Close the read end."""
        if self.open:
            self.open = False
            os.close(self.fd)

    def _keep(self, data: bytes) -> None:
        self._total += len(data)
        missing = self._head_size - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        if data and self._tail_size:
            self._end += data
            if len(self._end) > self._tail_size:
                del self._end[: -self._tail_size]
