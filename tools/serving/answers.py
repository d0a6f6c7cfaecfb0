"""Answers that all our servers give: JSON, refusals of one line with a reason, and who may ask at all."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agentgym.tools.serving.presence import Gone
from agentgym.tools.serving.turns import Busy

RETRY_S = 1
"""What refusals that will not last say as `Retry-After`."""

_log = logging.getLogger(__name__)


def answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(json.dumps(content), status, headers, media_type="application/json")


def check_token(request: Request, token: str) -> None:
    """Refuse a request that does not carry the token; nothing of its body has been read by then."""
    given = request.headers.get("authorization", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})


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


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _refusal,
    Busy: _busy,
    Gone: _nobody,
    ClientDisconnect: _nobody,
    Exception: _failure,
}
"""What an application gives as `exception_handlers`."""
