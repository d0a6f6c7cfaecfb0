"""Reads the bodies of requests, of bounded size."""

from __future__ import annotations

from starlette.requests import Request


class TooLarge(Exception):
    """A body is larger than allowed. The message says how large it may be."""


async def bounded_body(request: Request, at_most: int) -> bytes:
    """Return the body.

    Raises:
        TooLarge: Before reading anything if the client announces the size.
        ClientDisconnect: The client has left.
    """
    body = bytearray()
    if length_of(request) <= at_most:
        async for chunk in request.stream():
            body += chunk
            if len(body) > at_most:
                break
        else:
            return bytes(body)
    raise TooLarge(f"the request is larger than {at_most} bytes")


def length_of(request: Request) -> int:
    """Return the body's announced length; 0 if it is not announced."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdecimal() else 0
