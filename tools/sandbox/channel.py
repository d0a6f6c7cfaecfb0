"""The driver's end of the connection to an agent: one request, one answer. Blocking or asyncio over the same frames."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentgym.tools.sandbox.agent import wire

_FIRST, _CHUNK = 1 << 14, 1 << 18


class ChannelBroken(Exception):
    """The agent is gone, does not answer in time, or does not keep to the protocol."""


class Channel(Protocol):
    """What sandboxes speak over. After `ChannelBroken` it is of no more use."""

    async def request(
        self, header: wire.Header, blobs: Sequence[bytes], timeout_s: float, max_bytes: int
    ) -> wire.Frame:
        """Send a request and return the answer, whose blobs have at most `max_bytes` together."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def greet(endpoint: socket.socket, settings: Mapping[str, Any] | None, timeout_s: float) -> wire.Header:
    """Send an agent its settings, if it waits for them, and return its hello; raises `ChannelBroken`."""
    channel = BlockingChannel(endpoint)
    frame = b"" if settings is None else wire.encode({"op": "settings", **settings})
    answer, _ = channel.exchange(frame, timeout_s, 0)
    if "hello" not in answer:
        raise ChannelBroken(str(answer.get("message", answer)))
    return answer


def shut(endpoint: socket.socket) -> None:
    """End a connection for both sides, also while another thread reads from it."""
    with contextlib.suppress(OSError):
        endpoint.shutdown(socket.SHUT_RDWR)
    endpoint.close()


class BlockingChannel:
    """A channel whose coroutine never waits for a loop: for synchronous callers, by `agentgym.drive.run_now`."""

    def __init__(self, endpoint: socket.socket):
        self._socket = endpoint
        self._came = bytearray()

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
            wanted = next(reading)
            while True:
                wanted = reading.send(self._exactly(wanted, deadline))
        except StopIteration as done:
            return done.value
        except TimeoutError:
            raise ChannelBroken(f"no answer within {timeout_s:g} s") from None
        except (OSError, wire.BadFrame) as error:
            raise ChannelBroken(str(error)) from error

    def close(self) -> None:
        """Close the connection; whoever waits on it in another thread is woken."""
        shut(self._socket)

    def _exactly(self, size: int, deadline: float) -> bytes:
        came = self._came
        while len(came) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self._socket.recv(max(_FIRST, min(size - len(came), _CHUNK)))
            if not piece:
                raise ChannelBroken("the agent ended")
            came += piece
        with memoryview(came) as view:
            data = bytes(view[:size])
        del came[:size]
        return data


class AsyncChannel:
    """A channel for the running event loop."""

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
                wanted = next(reading)
                while True:
                    data = await self._exactly(loop, wanted)
                    try:
                        wanted = reading.send(data)
                    except StopIteration as done:
                        return done.value
        except TimeoutError:
            raise ChannelBroken(f"no answer within {timeout_s:g} s") from None
        except (OSError, wire.BadFrame) as error:
            raise ChannelBroken(str(error)) from error

    def close(self) -> None:
        """Close the connection; whoever waits on it in another thread is woken."""
        shut(self._socket)

    async def _exactly(self, loop: asyncio.AbstractEventLoop, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = await loop.sock_recv_into(self._socket, view[at : at + _CHUNK])
            if not got:
                raise ChannelBroken("the agent ended")
            at += got
        return bytes(data)
