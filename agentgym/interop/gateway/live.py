"""Answers with a stream that begins while the turn is still being sampled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agentgym.interop.gateway.chat_answers import ChatStream
from agentgym.interop.gateway.clients import while_there
from agentgym.interop.gateway.draft import Draft
from agentgym.interop.gateway.problems import problem_of
from agentgym.interop.gateway.rows import Reply

_ALIVE = ": the model is at work\n\n"
"""A comment, which clients pass over."""


async def streamed(
    request: Request,
    work: Callable[[Draft], Coroutine[Any, Any, Reply]],
    writer: ChatStream,
    headers: Mapping[str, str],
    silent_s: float,
) -> Response:
    """Return an answer as a stream, once there is something to say or a client may lose patience.

    An error that comes before has the status that it has otherwise; one that comes later is an event of the stream.
    The work is cancelled if the client leaves.

    Args:
        request: The client's request, whose body has been read.
        work: Samples the turn.
        writer: Writes it.
        headers: Headers of the answer.
        silent_s: Seconds without an event after which a comment is sent.

    Raises:
        ClientDisconnect: The client has left.
        Exception: What the work raised before the stream began.
    """
    pieces = _pieces(work, writer, silent_s)
    first = await while_there(request, _first(pieces))
    return _Stream(first, pieces, headers)


class _Stream(StreamingResponse):
    """A stream that has begun. However it ends, so does the work for it."""

    def __init__(self, first: str, pieces: AsyncGenerator[str], headers: Mapping[str, str]):
        super().__init__(_from(first, pieces), headers=headers, media_type="text/event-stream")
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Send it."""
        try:
            await super().stream_response(send)
        finally:
            await self._pieces.aclose()


async def _first(pieces: AsyncGenerator[str]) -> str:
    return await anext(pieces)


async def _from(first: str, pieces: AsyncGenerator[str]) -> AsyncGenerator[str]:
    yield first
    async for piece in pieces:
        yield piece


async def _pieces(
    work: Callable[[Draft], Coroutine[Any, Any, Reply]], writer: ChatStream, silent_s: float
) -> AsyncGenerator[str]:
    stirred = asyncio.Event()
    draft = Draft(stirred.set)
    working = asyncio.create_task(work(draft))
    working.add_done_callback(lambda it: stirred.set() or it.cancelled() or it.exception())  # which is then no news
    has_begun = False
    try:
        while await _next(stirred, working, silent_s):
            piece = writer.more(draft.text()) if stirred.is_set() else _ALIVE
            stirred.clear()
            if piece:
                has_begun = True
                yield piece
        try:
            last = writer.end(working.result())
        except Exception as error:
            if not has_begun:
                raise
            last = writer.failed(problem_of(error).body)
        yield last
    finally:
        working.cancel()


async def _next(stirred: asyncio.Event, working: asyncio.Task[Reply], silent_s: float) -> bool:
    """Wait for something to say, but not for longer than a client does. Return whether the turn goes on."""
    try:
        async with asyncio.timeout(silent_s):
            await stirred.wait()
    except TimeoutError:
        pass
    return not working.done()
