"""The gateway's side of HTTP: bodies of bounded size, clients that leave, and errors in OpenAI's form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from agentgym.errors import AgentGymError
from agentgym.interop.bodies import TooLarge, bounded_body
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.problems import Problem, problem_of

_T = TypeVar("_T")
_GONE = 499


async def read_request(request: Request, at_most: int) -> Mapping[str, Any]:
    """Return the JSON object in a request's body.

    Raises:
        Refused: It is larger than allowed, or no JSON object.
        ClientDisconnect: The client has left.
    """
    try:
        return _parsed(await bounded_body(request, at_most))
    except TooLarge as error:
        raise Refused(str(error), 413, "request_too_large") from None


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        given = json.loads(body or b"{}", parse_constant=_no_number)
        json.dumps(given, ensure_ascii=False).encode()  # half a character, which JSON can escape, cannot be a token
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(given, Mapping):
        raise Refused("the body must be a JSON object")
    return given


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


async def while_there(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of work for a client, which is cancelled if the client leaves.

    Raises:
        ClientDisconnect: It has left.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, leaving):
            task.cancel()
        if not working.done():
            with suppress(asyncio.CancelledError, Exception):
                await working


async def _left(request: Request) -> None:
    """Return when the client of a request, whose body has been read, leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _failed(_: Request, error: Exception) -> Response:
    return _answer(problem_of(error))


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = f"{request.method} {request.url.path}: {error.detail}"
    return _answer(Problem(said, error.status_code, "not_found"))


async def _nobody(_: Request, __: Exception) -> Response:
    return Response(status_code=_GONE)


def _answer(problem: Problem) -> Response:
    """Return an error. Clients of OpenAI make a call again after some statuses unless they are told not to."""
    headers = {"x-should-retry": "false"} if problem.status < 500 else {}
    return JSONResponse({"error": problem.body}, problem.status, headers)


HANDLERS: dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    AgentGymError: _failed,
    HTTPException: _not_found,
    ClientDisconnect: _nobody,
    Exception: _failed,
}
"""An application's `exception_handlers`."""
