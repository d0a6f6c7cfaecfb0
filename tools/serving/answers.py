"""Responses that all our servers share: JSON, one-line errors with a reason, and authentication."""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

_PIECE_BYTES = 256 << 10
RETRY_S = 1
"""`Retry-After` of temporary errors."""


def answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; temporary errors have `Retry-After`."""
    more = {"Retry-After": str(RETRY_S)} if status in (429, 503) else {}
    return Response(json.dumps(content), status, {**more, **(headers or {})}, media_type="application/json")


def in_pieces(body: bytes, media_type: str) -> Response:
    """Return a large response, sent in pieces so that the part not yet read by the client is not stored twice."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), _PIECE_BYTES):
            yield body[start : start + _PIECE_BYTES]

    return StreamingResponse(pieces(), headers={"Content-Length": str(len(body))}, media_type=media_type)


def has_token(headers: Headers, token: str) -> bool:
    """Whether a request carries the token, compared in constant time."""
    values = headers.getlist("authorization")
    return len(values) == 1 and hmac.compare_digest(values[0].encode("latin-1"), f"Bearer {token}".encode())


class TokenRequired:
    """Rejects requests and WebSockets without the token, for any path and before a body is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it."""
        if scope["type"] == "lifespan" or has_token(Headers(scope=scope), self._token):
            await self._app(scope, receive, send)
            return
        refusal = answer({"detail": "the token is missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
        await (WebSocketClose() if scope["type"] == "websocket" else refusal)(scope, receive, send)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer({"detail": error.detail}, error.status_code, error.headers)


async def _client_left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)


async def _failure(_request: Request, _error: Exception) -> Response:
    return answer({"detail": "the server failed; its log says why"}, 500)


HANDLERS: dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    HTTPException: _refusal,
    ClientDisconnect: _client_left,
    Exception: _failure,
}
"""An application's `exception_handlers`."""
