"""What a run writes, kept within bounds while it is read: the beginning and the end, the middle counted."""

from __future__ import annotations

import os

CHUNK = 1 << 16
FLOOD = 64
"""A stream that writes this many times what is kept ends the run."""


class Capture:
    """One stream: its read end, the bytes kept of it, and how many there were.

    Args:
        fd: The read end, owned from now on.
        keep: Bytes kept.
        tail: Whether half of them are the stream's end, with a note between; else only its beginning is kept.
    """

    def __init__(self, fd: int, keep: int, tail: bool = True):
        os.set_blocking(fd, False)
        self.fd = fd
        self.open = True
        self._tail = tail
        self.keep(keep)
        self._head = bytearray()
        self._end = bytearray()
        self._seen = 0

    def keep(self, size: int) -> None:
        """Set how many bytes are kept."""
        self._room = size
        self._tail_size = size // 2 if self._tail else 0
        self._head_size = size - self._tail_size

    @property
    def flooded(self) -> bool:
        """Whether so much came that the run is to end."""
        return self._seen > self._room * FLOOD + CHUNK

    def read(self) -> bool:
        """Take what is there now, at most one chunk; false once there is nothing (or the stream has ended)."""
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
        """Take everything that is there now."""
        while self.open and not self.flooded and self.read():
            pass

    def take(self) -> tuple[bytes, int]:
        """Return what was kept, with a note where something was left out, and how many bytes that was; start anew."""
        left_out = self._seen - len(self._head) - len(self._end)
        note = b"\n[... %d bytes cut ...]\n" % left_out if left_out and self._tail_size else b""
        kept = bytes(self._head) + note + bytes(self._end)
        self._head, self._end, self._seen = bytearray(), bytearray(), 0
        return kept, left_out

    def close(self) -> None:
        """Close the read end."""
        if self.open:
            self.open = False
            os.close(self.fd)

    def _keep(self, data: bytes) -> None:
        self._seen += len(data)
        missing = self._head_size - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        if data and self._tail_size:
            self._end += data
            if len(self._end) > self._tail_size:
                del self._end[: -self._tail_size]
