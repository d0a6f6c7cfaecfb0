"""WebSockets beside an HTTP application, served by threads of their own (`Leaders`).

The event loop does the handshake and hands the socket over. The thread that finds a message also works and answers:
hops between threads take longer than a short step of an environment.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState
from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from agentgym.foreign.errors import describe
from agentgym.interop.remote.channel import Channel, timeval
from agentgym.tools.serving.answers import has_token
from agentgym.tools.serving.leaders import Leaders
from agentgym.tools.serving.limits import ConnectionLimits
from agentgym.tools.serving.one_each import OneEach

_PIECE_BYTES = 1 << 16
_LONG_S = 0.002
"""Seconds of a request after which the next one is expected to be long, too."""
Talk = Callable[[Channel], bool]
"""Answers the next message, and returns whether the conversation goes on. Runs in a thread."""
_log = logging.getLogger(__name__)


class _NothingYet(Exception):
    """All that has come is read."""


class Streams:
    """The WebSockets of a server.

    Args:
        path: Where they are opened.
        token: What every client must show.
        talk: Answers a message.
        limits: The limits of the server's connections.
        idle_s: Seconds without a message after which one is closed.
    """

    def __init__(self, path: str, token: str, talk: Talk, limits: ConnectionLimits, idle_s: float):
        self.path, self.token, self.talk, self.limits, self.idle_s = path, token, talk, limits, idle_s
        self._lock = threading.Lock()
        self._held_bytes = 0
        self.leaders = Leaders() if hasattr(select, "epoll") else OneEach()

    def protocol(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> StreamConnection:
        """Return the protocol of a connection that asks for a WebSocket. uvicorn's `ws_protocol_class`."""
        return StreamConnection(self, server_state)

    def hold(self, more_bytes: int) -> bool:
        """Count bytes of messages that are not complete, and return whether there is memory for them."""
        with self._lock:
            self._held_bytes += more_bytes
            return self._held_bytes <= self.limits.held_bytes


class StreamConnection(asyncio.Protocol):
    """One WebSocket. The event loop knows it by its transport, which it neither reads nor writes."""

    def __init__(self, streams: Streams, state: ServerState):
        self._streams, self._state = streams, state
        self._loop = asyncio.get_running_loop()
        self._protocol = ServerProtocol(max_size=streams.limits.body_bytes)
        self._held_bytes = 0
        self._since = 0.0
        self._used_at = time.monotonic()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_working = self._is_stopping = self._has_read = self._is_long = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection over from HTTP."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket: socket.socket = transport.get_extra_info("socket").dup()
        self._state.connections.add(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Shake hands, and wait for messages."""
        self._protocol.receive_data(data)
        requests = self._protocol.events_received()
        if not requests or not self._is_admitted(requests[0]):
            self._socket.close()
            self._transport.write(b"".join(self._protocol.data_to_send()))
            self._transport.close()
            return
        self._transport.pause_reading()
        self._socket.setblocking(True)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval(self._streams.limits.body_s))
        self._channel = Channel(self._protocol, self._read, self._socket.sendall, self._streams.limits.body_bytes)
        try:
            self._socket.sendall(b"".join(self._protocol.data_to_send()))
            self._streams.leaders.add(self)
        except (OSError, RuntimeError):  # the client has left, or the machine has no more threads
            self.end()
        else:
            self._idle_timer = self._loop.call_later(self._streams.idle_s, self._drop_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._state.connections.discard(self)  # type: ignore[arg-type]

    def shutdown(self) -> None:
        """Close the connection once the running request is answered. Called when the server stops."""
        self._is_stopping = True
        if not self._is_working:
            self.drop()

    def drop(self) -> None:
        """Close the connection immediately. The thread notices when it next uses the socket."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _is_admitted(self, request: Any) -> bool:
        """Answer the handshake."""
        assert isinstance(request, Request)
        headers = [(name.encode(), value.encode()) for name, value in request.headers.raw_items()]
        if not has_token(headers, self._streams.token):
            response = self._protocol.reject(401, "the token is missing or wrong")
        elif request.path.partition("?")[0] != self._streams.path:
            response = self._protocol.reject(404, f"WebSockets are at {self._streams.path}")
        else:
            response = self._protocol.accept(request)
        self._protocol.send_response(response)
        return response.status_code == 101

    def _drop_if_idle(self) -> None:
        left_s = self._used_at + self._streams.idle_s - time.monotonic()
        if left_s <= 0 and not self._is_working:
            self.drop()
        else:
            self._idle_timer = self._loop.call_later(max(left_s, 1.0), self._drop_if_idle)

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def serve(self) -> bool:
        """Answer what has come, and return whether the client may send more. Runs in a thread."""
        self._has_read = False
        if self._is_long:
            self._streams.leaders.step_aside()
        began = time.monotonic()
        try:
            goes_on = self._streams.talk(self._channel)
            while goes_on and (self._channel.has_more or self._is_stopping):
                goes_on = self._streams.talk(self._channel)
            if not goes_on:
                self._channel.close(CloseCode.GOING_AWAY)
        except _NothingYet:
            goes_on = True
        except OSError:  # the client has left, or is too slow
            goes_on = False
        except Exception as error:
            _log.error("a WebSocket is closed: %s", describe(error))
            goes_on = False
        self._is_working = False
        if self._held_bytes:  # the last message is complete
            self._hold(0)
        self._used_at = time.monotonic()
        self._is_long = self._used_at - began > _LONG_S
        return goes_on

    def end(self) -> None:
        """Close the connection for good."""
        self._hold(0)
        self.drop()
        self._socket.close()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._transport.abort)

    def _read(self, held_bytes: int) -> bytes:
        """Return what comes next, of an incomplete message after waiting for it.

        Raises:
            OSError: That takes too long, or is too much.
            _NothingYet: Nothing has come since the last message.
        """
        self._is_working = False
        if self._is_stopping:
            return b""
        if held_bytes:
            self._streams.leaders.step_aside()
            self._wait_for_rest(held_bytes)
            data = self._socket.recv(_PIECE_BYTES)
        else:
            data = self._at_once()
        self._is_working, self._has_read = True, bool(data)
        return data

    def _at_once(self) -> bytes:
        if self._has_read:
            raise _NothingYet
        try:
            return self._socket.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise _NothingYet from None

    def _wait_for_rest(self, held_bytes: int) -> None:
        now, limits = time.monotonic(), self._streams.limits
        if not self._held_bytes:
            self._since = now
        self._hold(held_bytes)
        left_s = self._since + limits.body_s + held_bytes / limits.bytes_per_s - now
        if left_s <= 0:
            raise TimeoutError("the message took too long")
        self._patience(left_s)

    def _hold(self, size: int) -> None:
        before, self._held_bytes = self._held_bytes, size
        if not self._streams.hold(size - before) and size:
            raise OSError("all clients together have sent too much that is not complete")

    def _patience(self, seconds: float) -> None:
        """Let reading fail after a while without data."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(seconds))
