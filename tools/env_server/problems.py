"""What a server of environments answers over HTTP instead of a result, and how its interface describes that."""

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


class Error(BaseModel):
    """What is wrong. Only what the *model* does wrong is part of an observation."""

    kind: Literal[
        "usage", "task", "broken_task", "reset_needed", "gone", "busy", "out_of_time", "infrastructure", "no_solution"
    ]
    message: str
    facts: dict[str, Any] | None = Field(None, description="Of `out_of_time`: `reason`, `what` and `limit_s`.")


class Problem(BaseModel):
    """A request that was understood, and has no result."""

    error: Error


class Refusal(BaseModel):
    """A request that did not reach a session: no token, too large, of unknown size, or the server is stopping."""

    detail: str


def _declared(model: Any, says: str) -> dict[str, Any]:
    return {"model": model, "description": says}


REFUSALS: dict[int | str, dict[str, Any]] = {
    401: _declared(Refusal, "The token is missing or wrong."),
    503: _declared(Problem | Refusal, "The server has no room at present, or is stopping."),
}
"""The answers besides a result that every path can give, for the description of the interface."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    400: _declared(Problem, "The body is not JSON."),
    404: _declared(Problem, "There is no such task or split."),
    411: _declared(Refusal, "The request does not say how long it is."),
    413: _declared(Refusal, "The request is too large."),
    422: _declared(Problem, "The request asks for something impossible."),
    502: _declared(Problem, "Something around the model broke: the episode has failed and has no reward."),
    504: _declared(Problem, "It took too long: the session is over and its episode has failed."),
}
"""Those of every path that changes something."""
OF_SESSION: dict[int | str, dict[str, Any]] = {
    **PROBLEMS,
    409: _declared(Problem, "No episode is running: it has ended, failed, or was never begun."),
    410: _declared(Problem, "There is no such session; it may have ended."),
}
"""Those of every path of a session."""


def response_of(reply: Mapping[str, Any]) -> Response:
    """Return the answer to a request: the bare result, or the error with its status."""
    if (error := reply.get("error")) is None:
        try:
            return _json(encoded_reply(reply["result"]), 200)
        except InfrastructureError as problem:
            error = error_data(problem)
    status = _STATUS.get(error["kind"], 502)
    return _json(encoded_reply({"error": error}), status, {"Retry-After": str(RETRY_S)} if status == 503 else None)


async def invalid(_: Request, error: Exception) -> Response:
    """Answer a body of the wrong form."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"] if part != "body")
    message = f"{where}: {problem['msg']}" if where else str(problem["msg"])
    return response_of({"error": error_data(UsageError(message))})


async def refused(request: Request, error: Exception) -> Response:
    """Answer a body that cannot be read, a path that there is none, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    what = (
        "the body is not JSON" if error.status_code == 400 else f"{request.method} {request.url.path}: {error.detail}"
    )
    content = {"error": error_data(UsageError(what))}
    return _json(encoded_reply(content), error.status_code, dict(error.headers or {}))


def _json(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")
