"""Demultiplexes a container's output: Docker puts an eight-byte header before each piece of stdout and stderr."""

from __future__ import annotations

from collections.abc import Callable

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
