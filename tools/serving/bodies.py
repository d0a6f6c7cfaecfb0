"""The body of a request: all of it, if it is not too large, and as strict JSON where JSON is wanted."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_body(request: Request, at_most: int) -> bytes:
    """Return the body.

    Raises:
        HTTPException: 413, before anything is read if the client says how much it will be.
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
    """Return how long the body will be, as the client says; 0 if it does not say."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdecimal() else 0


async def read_object(request: Request, at_most: int) -> dict[str, Any]:
    """Return the JSON object that a request carries.

    Raises:
        HTTPException: 413 as above, 400 for what is no JSON, 422 for JSON that is no object.
    """
    return parse_object(await read_body(request, at_most))


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; see `read_object`."""
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the request is not JSON: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise HTTPException(400, "the request is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise HTTPException(400, f"the request is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise HTTPException(422, f"the request must be a JSON object, not {type(content).__name__!r}")
    return content


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name comes twice in one object")
    return content


def _too_large(at_most: int) -> HTTPException:
    return HTTPException(413, f"the request is larger than {at_most} bytes")
