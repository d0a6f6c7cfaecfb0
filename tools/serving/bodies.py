"""Reads request bodies of bounded size, and parses strict JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_body(request: Request, at_most: int) -> bytes:
    """Return the body.

    Raises:
        HTTPException: 413, before reading anything if the client announces the size.
        ClientDisconnect: The client has left.
    """
    if length_of(request) > at_most:
        raise _too_large(at_most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > at_most:
            raise _too_large(at_most)
    return bytes(body)


def length_of(request: Request) -> int:
    """Return the body's announced length; 0 if it is not announced."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdecimal() else 0


async def read_object(request: Request, at_most: int) -> dict[str, Any]:
    """Return the JSON object in a request's body.

    Raises:
        HTTPException: 413 as above, 400 for invalid JSON, 422 for JSON that is not an object.
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


def _too_large(at_most: int) -> HTTPException:
    return HTTPException(413, f"the request is larger than {at_most} bytes")
