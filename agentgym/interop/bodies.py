"""Reads request bodies of bounded size, and cancels work whose client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

_T = TypeVar("_T")


class TooLarge(Exception):
    """A body exceeds the maximum size, which the message states."""


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


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of work for a client; cancel the work if the client leaves.

    Args:
        request: The client's request, whose body has been read.
        work: The work.

    Raises:
        ClientDisconnect: The client has left.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(_disconnection(request))
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


async def _disconnection(request: Request) -> None:
    """Return when the client of a request leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
