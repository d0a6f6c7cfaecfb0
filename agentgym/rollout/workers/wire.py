"""Pickled messages over a stream, each after its length. Both ends are our own processes."""

from __future__ import annotations

import asyncio
import pickle
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


def packed(message: Any) -> bytes:
    """Return a message as bytes."""
    return framed(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def framed(data: bytes) -> bytes:
    """Return a pickled message as bytes."""
    return _LENGTH.pack(len(data)) + data


class Outbox:
    """Sends messages; writes all of one iteration of the event loop at once, since each write is expensive.

    Args:
        writer: The stream to write to.
    """

    def __init__(self, writer: asyncio.StreamWriter):
        self._writer, self._waiting = writer, bytearray()

    def put(self, data: bytes) -> None:
        """Send a packed message soon."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting += data

    def _flush(self) -> None:
        data, self._waiting = self._waiting, bytearray()
        self._writer.write(data)


async def received(stream: asyncio.StreamReader) -> Any:
    """Return the next message. Raises `EOFError` if the other end is closed."""
    try:
        (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        return pickle.loads(await stream.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error
