"""The driver's end of the connection to an agent: one request, one answer, either blocking or with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentgym.tools.sandbox.agent import wire

_FIRST, _CHUNK = 1 << 14, 1 << 18


class ConnectionBroken(Exception):
    """The agent is gone, did not answer in time, or violated the protocol."""


class AgentConnection(Protocol):
    """A sandbox's connection to its agent. Unusable after `ConnectionBroken`."""

    async def request(
        self, header: wire.Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int
    ) -> wire.Frame:
        """Send a request and return the answer, whose blobs have at most `max_bytes` in total."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def greet(endpoint: socket.socket, settings: Mapping[str, Any] | None, timeout_s: float) -> wire.Header:
    """Send the agent its settings if it waits for them, and return its hello; raises `ConnectionBroken`."""
    connection = BlockingConnection(endpoint)
    frame = b"" if settings is None else wire.encode({"op": "settings", **settings})
    answer, _ = connection.exchange(frame, timeout_s, 0)
    if "hello" not in answer:
        raise ConnectionBroken(str(answer.get("message", answer)))
    return answer


def shut(endpoint: socket.socket) -> None:
    """Close a connection for both sides, even while another thread reads from it."""
    with contextlib.suppress(OSError):  # the other side may have closed it
        endpoint.shutdown(socket.SHUT_RDWR)
    endpoint.close()


class BlockingConnection:
    """A connection whose coroutines never suspend: for synchronous callers, by `agentgym.core.engine.drive.run_now`."""

    def __init__(self, endpoint: socket.socket):
        self._socket = endpoint
        self._buffer = bytearray()

    async def request(
        self, header: wire.Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int
    ) -> wire.Frame:
        """Send a request and return the answer."""
        return self.exchange(wire.encode(header, blobs), timeout_s, max_bytes)

    def exchange(self, frame: bytes, timeout_s: float, max_bytes: int) -> wire.Frame:
        """Send an encoded request and return the answer."""
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(frame)
            reading = wire.decoder(max_bytes)
            size = next(reading)
            while True:
                size = reading.send(self._exactly(size, deadline))
        except StopIteration as done:
            return done.value
        except TimeoutError:
            raise ConnectionBroken(f"no answer within {timeout_s:g} s") from None
        except (OSError, wire.BadFrame) as error:
            raise ConnectionBroken(str(error)) from error

    def close(self) -> None:
        """Close the connection, which wakes any thread that waits on it."""
        shut(self._socket)

    def _exactly(self, size: int, deadline: float) -> bytes:
        buffer = self._buffer
        while len(buffer) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self._socket.recv(max(_FIRST, min(size - len(buffer), _CHUNK)))
            if not piece:
                raise ConnectionBroken("the agent exited")
            buffer += piece
        with memoryview(buffer) as view:
            data = bytes(view[:size])
        del buffer[:size]
        return data


class AsyncConnection:
    """A connection for the running event loop."""

    def __init__(self, endpoint: socket.socket):
        endpoint.setblocking(False)
        self._socket = endpoint

    async def request(
        self, header: wire.Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int
    ) -> wire.Frame:
        """Send a request and return the answer."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.sock_sendall(self._socket, wire.encode(header, blobs))
                reading = wire.decoder(max_bytes)
                size = next(reading)
                while True:
                    data = await self._exactly(loop, size)
                    try:
                        size = reading.send(data)
                    except StopIteration as done:
                        return done.value
        except TimeoutError:
            raise ConnectionBroken(f"no answer within {timeout_s:g} s") from None
        except (OSError, wire.BadFrame) as error:
            raise ConnectionBroken(str(error)) from error

    def close(self) -> None:
        """Close the connection, which wakes any thread that waits on it."""
        shut(self._socket)

    async def _exactly(self, loop: asyncio.AbstractEventLoop, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = await loop.sock_recv_into(self._socket, view[at : at + _CHUNK])
            if not got:
                raise ConnectionBroken("the agent exited")
            at += got
        return bytes(data)
