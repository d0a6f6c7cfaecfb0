"""The answers that all our servers share: JSON, one-line errors with a reason, and authentication."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym.tools.serving.presence import Gone
from agentgym.tools.serving.turns import Busy

_PIECE_BYTES = 1 << 20
RETRY_S = 1
"""`Retry-After` of temporary errors."""

_log = logging.getLogger(__name__)


def answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(json.dumps(content), status, headers, media_type="application/json")


class BytesInPieces(Response):
    """A large answer, sent in pieces, so that the part not yet read by the client is not stored twice."""

    media_type = "application/octet-stream"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        size = len(self.body)
        for at in range(0, size or 1, _PIECE_BYTES):
            piece = bytes(self.body[at : at + _PIECE_BYTES])
            await send({"type": "http.response.body", "body": piece, "more_body": at + _PIECE_BYTES < size})


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request carries the token. Takes as long for a nearly right one as for any other."""
    given = [value for name, value in headers if name.lower() == b"authorization"]
    return len(given) == 1 and hmac.compare_digest(given[0], f"Bearer {token}".encode())


class TokenRequired:
    """Rejects requests without the token, for any path and before their body is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it."""
        if scope["type"] == "http" and not has_token(scope["headers"], self._token):
            refusal = answer({"detail": "the token is missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code in (429, 503):
        headers.setdefault("Retry-After", str(RETRY_S))
    return answer({"detail": error.detail}, error.status_code, headers)


async def _busy(request: Request, error: Exception) -> Response:
    assert isinstance(error, Busy)
    return await _refusal(request, HTTPException(error.status, str(error)))


async def _nobody(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)


async def _failure(request: Request, error: Exception) -> Response:
    _log.error("%s failed", request.scope["path"], exc_info=error)
    return answer({"detail": "the server failed; its log says why"}, 500)


HANDLERS: dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    HTTPException: _refusal,
    Busy: _busy,
    Gone: _nobody,
    ClientDisconnect: _nobody,
    Exception: _failure,
}
"""An application's `exception_handlers`."""
