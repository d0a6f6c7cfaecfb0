"""Reads request bodies of bounded size, and parses strict JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agentgym.interop.bodies import TooLarge, bounded_body


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
