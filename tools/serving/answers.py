"""Shared by all our servers: request bodies of bounded size, JSON responses, one-line errors, authentication."""

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

from agentgym.interop.bodies import TooLarge, bounded_body

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


async def read_body(request: Request, at_most: int) -> bytes:
    """Return the body.

    Raises:
        HTTPException: 413, before reading anything if the client announces the size.
        ClientDisconnect: The client has left.
    """
    try:
        return await bounded_body(request, at_most)
    except TooLarge as error:
        raise HTTPException(413, str(error)) from None


async def read_object(request: Request, at_most: int) -> dict[str, Any]:
    """Return the JSON object in a request's body.

    Raises:
        HTTPException: 413 if it is too large, 400 for invalid JSON, 422 for JSON that is not an object.
    """
    return parse_object(await read_body(request, at_most))


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; see `read_object`."""
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the request is not JSON: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise HTTPException(400, "the request's JSON is nested too deeply") from None
    except ValueError as error:
        raise HTTPException(400, f"the request is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise HTTPException(422, f"the request must be a JSON object, not {type(content).__name__!r}")
    return content


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a valid JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("an object contains a name twice")
    return content
