"""Runs an application under uvicorn: a listening socket, limits, and the end on a signal."""

from __future__ import annotations

import asyncio
import ctypes
import math
import resource
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentgym.base.errors import UsageError
from agentgym.base.signals import end_process
from agentgym.tools.serving.answers import answer

PATIENCE_S = 20
"""Seconds for a client to begin a request, to send a body, or to read a piece of a response ..."""
_BYTES_PER_S = 16_384
"""... plus one second for each this many bytes of it."""


@dataclass
class _Client:
    """The client of one connection."""

    until: float
    """Deadline after which it is dropped; infinite while the client waits for the server."""
    held_bytes: int = 0
    """Bytes received of an unfinished body."""
    is_answered: bool = False
    """Whether the response to its request has begun."""


class Guard:
    """Wraps the application of a server.

    Args:
        app: The application.
        requests: Maximum concurrent requests; more are refused. uvicorn's limit would count idle connections too.
        waiting: Maximum number of connections that the server waits for. Beyond it, those with the earliest deadline
            are dropped, so that connections without a request keep nobody out.
        body_bytes: Maximum size of a request's body.
        held_bytes: Maximum size of all unfinished bodies together. Beyond it, connections are dropped in that order.
    """

    def __init__(self, app: ASGIApp, requests: int, waiting: int, body_bytes: int, held_bytes: int) -> None:
        self._app, self._most_requests, self._most_waiting = app, requests, waiting
        self._body_bytes, self._most_held = body_bytes, held_bytes
        self._clients: dict[Any, _Client] = {}
        self._requests = self._held_bytes = 0
        self.connections: Collection[Any] = ()
        """The connections of the server, as uvicorn keeps them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, a WebSocket or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        client = self._clients[scope["client"]] = _Client(math.inf)
        self._requests += 1
        try:
            if scope["type"] == "http":
                app = self._refusal(Headers(scope=scope)) or self._app
                await app(scope, self._receiving(client, receive), _sending(client, send))
            else:
                await self._app(scope, receive, send)
        except asyncio.CancelledError:  # the server is stopping; uvicorn would log a failure of the application
            if scope["type"] == "http" and not client.is_answered:
                await answer({"detail": "the server is stopping"}, 503)(scope, receive, send)
        finally:
            self._requests -= 1
            self._hold(client, 0)
            client.until = time.monotonic() + PATIENCE_S

    async def drop_overdue(self) -> None:
        """Drop connections that have kept the server waiting for too long or that exceed a limit."""
        self._drop()

    def admit(self) -> None:
        """Make room for a new connection at once, so that a burst of others cannot take all open files."""
        if len(self.connections) > self._most_waiting:
            self._drop()

    def _drop(self) -> None:
        now = time.monotonic()
        for client in set(self._clients).difference(connection.client for connection in self.connections):
            del self._clients[client]
        waiting = [
            (client, connection.transport)
            for connection in self.connections
            if (client := self._clients.setdefault(connection.client, _Client(now + PATIENCE_S))).until < math.inf
        ]
        waiting.sort(key=lambda pair: pair[0].until)
        for count_left, (client, transport) in zip(range(len(waiting), 0, -1), waiting, strict=True):
            is_overdue = client.until + transport.get_write_buffer_size() / _BYTES_PER_S < now
            holds_too_much = client.held_bytes and self._held_bytes > self._most_held
            if is_overdue or count_left > self._most_waiting or holds_too_much:
                self._hold(client, 0)
                transport.abort()

    def _refusal(self, headers: Headers) -> Response | None:
        if self._requests > self._most_requests:
            return answer({"detail": f"{self._most_requests} requests are in progress; try again later"}, 503)
        if "transfer-encoding" in headers:
            # A chunked body may have millions of chunks, and each chunk costs as much as a whole body of known length.
            return answer({"detail": "set Content-Length; chunked bodies are not accepted"}, 411)
        if int(headers.get("content-length", 0)) > self._body_bytes:
            return answer({"detail": f"the body is larger than {self._body_bytes} bytes"}, 413)
        return None

    def _receiving(self, client: _Client, receive: Receive) -> Receive:
        """Return a `receive` with a deadline for the whole body."""
        began, size, has_more = time.monotonic(), 0, True

        async def receiving() -> Message:
            nonlocal size, has_more
            if not has_more:
                return await receive()
            client.until = began + PATIENCE_S + size / _BYTES_PER_S
            try:
                message = await receive()
            finally:
                client.until = math.inf
            size, has_more = size + len(message.get("body", b"")), message.get("more_body", False)
            self._hold(client, size if has_more else 0)
            if self._held_bytes > self._most_held:
                await self.drop_overdue()
            return message

        return receiving

    def _hold(self, client: _Client, size: int) -> None:
        self._held_bytes += size - client.held_bytes
        client.held_bytes = size


def _sending(client: _Client, send: Send) -> Send:
    """Return a `send` with a deadline for each piece of the response."""

    async def sending(message: Message) -> None:
        client.is_answered, client.until = True, time.monotonic() + PATIENCE_S
        try:
            await send(message)
        finally:
            client.until = math.inf

    return sending


BODY_BYTES = 1 << 20
"""Default maximum size of a request's body."""
_HELD_BYTES = 128 << 20
_REQUESTS = 2048
"""Requests at a time, besides those of sessions."""
_WAITING = 1024
"""Connections that may keep the server waiting, for a request or for the client to read a response."""
_ACCEPTED = 16
"""Connections to accept before making room: asyncio stops accepting for a second once no more files can be opened."""
_QUEUE = 4096
"""Connections that the system may keep until they are accepted; it lets others try again after seconds."""
_FILES = 8192
"""Open files, besides those of sessions, so that many connections at once leave room for others."""
_M_MMAP_THRESHOLD = -3
"""The option's number in glibc's `malloc.h`."""
_LARGE_BYTES = 256 << 10


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is set; otherwise a response in parts takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    listening.listen()
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    name, number = listening.getsockname()[:2]
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def make_server(
    app: ASGIApp,
    *,
    body_bytes: int = BODY_BYTES,
    held_bytes: int = _HELD_BYTES,
    sessions: int = 0,
    streams: bool = False,
) -> uvicorn.Server:
    """Return a server of an application.

    Args:
        app: The application.
        body_bytes: Maximum size of a request's body, and of a message of a WebSocket.
        held_bytes: Maximum size of all unfinished bodies together.
        sessions: Sessions of the application; each has its own connection, for a while two.
        streams: Whether clients can open WebSockets.
    """
    files = _raised_file_limit(_FILES + 2 * sessions)
    guard = Guard(app, _REQUESTS + 2 * sessions, min(_WAITING, files // 4), body_bytes, held_bytes)

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            guard.admit()

    config = uvicorn.Config(
        guard,
        loop="asyncio",
        http=Connection,
        backlog=_ACCEPTED,
        ws="websockets-sansio" if streams else "none",
        ws_max_size=body_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="error",  # malformed requests are their clients' problem, and could fill a disk with warnings
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=PATIENCE_S,
        timeout_graceful_shutdown=1,
        callback_notify=guard.drop_overdue,
        timeout_notify=0,  # once a second, which is as often as uvicorn looks
    )
    server = _Server(config)
    guard.connections = server.server_state.connections
    return server


class _Server(uvicorn.Server):
    """A server whose queue of connections is longer than the number that asyncio accepts at a time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_QUEUE)


def run_server(app: ASGIApp, listening: socket.socket, **limits: Any) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress get a moment to finish. See `make_server` for the limits."""
    _return_large_blocks()
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has ended
        make_server(app, **limits).run(sockets=[listening])


def serve_locally(
    app: ASGIApp,
    port: int,
    announce: Callable[[str], object],
    *,
    body_bytes: int = BODY_BYTES,
    at_end: Callable[[], object] = lambda: None,
) -> NoReturn:
    """Serve on the loopback address until SIGINT or SIGTERM, then end the process.

    Args:
        app: The application.
        port: 0 picks a free port.
        announce: Called with the URL once connections are accepted.
        body_bytes: Maximum size of a request's body.
        at_end: Called after the server has stopped.

    Raises:
        UsageError: The port is taken.
    """
    listening = listen("127.0.0.1", port)
    announce(url_of(listening))
    run_server(app, listening, body_bytes=body_bytes)
    at_end()
    end_process()


def _raised_file_limit(target: int) -> int:
    """Raise the limit on open files to `target`, or as far as allowed, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return target
    raised = target if hard == resource.RLIM_INFINITY else min(target, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def _return_large_blocks() -> None:
    """Let the C library return large blocks of memory as soon as they are free.

    By default, glibc keeps blocks of a size that was freed once, so a few large messages would cost memory for good.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
