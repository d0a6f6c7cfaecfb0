"""Pickled messages over a stream, each after its length. Both ends are our own processes."""

from __future__ import annotations

import asyncio
import pickle
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


def packed(message: Any) -> bytes:
    """Return a message as bytes."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


async def received(stream: asyncio.StreamReader) -> Any:
    """Return the next message. Raises `EOFError` if the other end is gone."""
    try:
        (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        return pickle.loads(await stream.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error
