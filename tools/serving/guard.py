"""`Guard`: ASGI middleware that refuses oversized bodies and drops connections that keep the server waiting.

uvicorn has no deadline for receiving the headers or the body of a request, nor for sending a response.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
