"""HTTP error responses of an environment server, and their descriptions in its OpenAPI schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from agentgym.errors import InfrastructureError, UsageError
from agentgym.interop.remote.wire import BUSY, GONE, encoded_reply, error_data
from agentgym.tools.serving.answers import RETRY_S

_STATUS: Mapping[str, int] = {
    "usage": 422,
    "no_solution": 422,
    "task": 404,
    "broken_task": 404,
    "reset_needed": 409,
    GONE: 410,
    BUSY: 503,
    "out_of_time": 504,
    "infrastructure": 502,
}


class ErrorDetail(BaseModel):
    """The error. The *model's* mistakes are not errors: they are part of an observation."""

    kind: Literal[
        "usage", "task", "broken_task", "reset_needed", "gone", "busy", "out_of_time", "infrastructure", "no_solution"
    ]
    message: str
    facts: dict[str, Any] | None = Field(None, description="Of `out_of_time`: `reason`, `what` and `limit_s`.")


class ErrorResponse(BaseModel):
    """The response to a request that was understood but has no result."""

    error: ErrorDetail


class Refusal(BaseModel):
    """The response to a request that did not reach a session: no token, too large, no length, or server shutdown."""

    detail: str


def _declared(model: Any, description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


REFUSALS: dict[int | str, dict[str, Any]] = {
    401: _declared(Refusal, "The token is missing or wrong."),
    503: _declared(ErrorResponse | Refusal, "The server has no room at present, or is stopping."),
}
"""Error responses of every path."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    400: _declared(ErrorResponse, "The body is not JSON."),
    404: _declared(ErrorResponse, "There is no such task or split."),
    411: _declared(Refusal, "The request has no Content-Length."),
    413: _declared(Refusal, "The request is too large."),
    422: _declared(ErrorResponse, "The request asks for something impossible."),
    502: _declared(ErrorResponse, "Something around the model broke: the episode has failed and has no reward."),
    504: _declared(ErrorResponse, "It took too long: the session has ended and its episode has failed."),
}
"""Error responses of every path that changes something."""
OF_SESSION: dict[int | str, dict[str, Any]] = {
    **PROBLEMS,
    409: _declared(ErrorResponse, "No episode is running: it has ended, failed, or never began."),
    410: _declared(ErrorResponse, "There is no such session; it may have ended."),
}
"""Error responses of every path of a session."""


def response_of(reply: Mapping[str, Any]) -> Response:
    """Return a reply as an HTTP response: the bare result, or the error with its status."""
    if (error := reply.get("error")) is None:
        try:
            return _json(encoded_reply(reply["result"]), 200)
        except InfrastructureError as problem:
            error = error_data(problem)
    status = _STATUS.get(error["kind"], 502)
    return _json(encoded_reply({"error": error}), status, {"Retry-After": str(RETRY_S)} if status == 503 else None)


async def invalid(_: Request, error: Exception) -> Response:
    """Respond to a body that does not match its schema."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"] if part != "body")
    message = f"{where}: {problem['msg']}" if where else str(problem["msg"])
    return response_of({"error": error_data(UsageError(message))})


async def refused(request: Request, error: Exception) -> Response:
    """Respond to an unreadable body, an unknown path or an unsupported method."""
    assert isinstance(error, HTTPException)
    message = (
        "the body is not JSON" if error.status_code == 400 else f"{request.method} {request.url.path}: {error.detail}"
    )
    content = {"error": error_data(UsageError(message))}
    return _json(encoded_reply(content), error.status_code, dict(error.headers or {}))


def _json(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")
