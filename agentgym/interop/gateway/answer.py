"""Writes replies as chat completions: whole, and as streams that begin while the turn is still being sampled."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agentgym.errors import InfrastructureError
from agentgym.interop.bodies import while_connected
from agentgym.interop.gateway.errors import problem_of
from agentgym.interop.gateway.request import ChatRequest
from agentgym.interop.gateway.row import Reply
from agentgym.interop.gateway.turn import Draft

_DONE = "data: [DONE]\n\n"

_ALIVE = ": the model is at work\n\n"
"""A comment, which clients pass over."""


def head_of(session: str, model: str) -> dict[str, Any]:
    """Return the fields that an answer and each piece of a stream begin with."""
    return {"id": f"chatcmpl-{session}-{time.monotonic_ns()}", "created": int(time.time()), "model": model}


def completion(head: Mapping[str, Any], reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """Return a reply as a whole answer."""
    logprobs = _logprobs(reply) if request.wants_logprobs else None
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish, "logprobs": logprobs}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


class ChatStream:
    """Writes a reply as a stream: its text while it is sampled, its calls one by one, then why it ended.

    Args:
        head: The fields that each piece begins with.
        request: The request to answer. If it asks for log-probabilities, the text comes when it is complete.
    """

    def __init__(self, head: Mapping[str, Any], request: ChatRequest):
        self._head, self._request = head, request
        self._sent: str | None = None
        """The text that has been sent, once there is some."""

    def more(self, text: str) -> str:
        """Return the piece with the new part of a text; it may be empty."""
        if self._request.wants_logprobs or text == (self._sent or ""):
            return ""
        return self._piece(_choice(self._delta(text)))

    def end(self, reply: Reply) -> str:
        """Return the other pieces of the whole reply."""
        message = reply.message
        pieces: list[dict[str, Any]] = []
        if self._sent is None or self._sent != (message["content"] or ""):
            pieces.append(_choice(self._delta(message["content"])))
        calls = message.get("tool_calls", [])
        pieces += [_choice({"tool_calls": [{"index": number, **call}]}) for number, call in enumerate(calls)]
        if self._request.wants_logprobs:
            pieces[0]["choices"][0]["logprobs"] = _logprobs(reply)
        pieces.append(_choice({}, reply.finish))
        if self._request.wants_usage:
            pieces.append({"choices": [], "usage": _usage(reply)})
        return "".join(map(self._piece, pieces)) + _DONE

    def failed(self, problem: Mapping[str, Any]) -> str:
        """Return the piece that says why there is no more."""
        return f"data: {json.dumps({'error': dict(problem)})}\n\n{_DONE}"

    def _delta(self, text: str | None) -> dict[str, Any]:
        """Return the part of the text that has not been sent, and note it as sent."""
        sent, self._sent = self._sent, text or ""
        return {"role": "assistant", "content": text} if sent is None else {"content": _rest(self._sent, sent)}

    def _piece(self, content: Mapping[str, Any]) -> str:
        return f"data: {json.dumps({**self._head, 'object': 'chat.completion.chunk', **content})}\n\n"


def _rest(text: str, beginning: str) -> str:
    """Return a text without its beginning. Raises `InfrastructureError` if it begins otherwise."""
    if not text.startswith(beginning):
        raise InfrastructureError("the beginning of a turn, which has been sent, has changed; do not stream its answer")
    return text[len(beginning) :]


def _choice(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _logprobs(reply: Reply) -> dict[str, Any]:
    """Return the sampled tokens, those of calls too, with their log-probabilities."""
    content = [
        {"token": text, "logprob": logprob, "bytes": [*text.encode()], "top_logprobs": []}
        for text, logprob in reply.logprobs
    ]
    return {"content": content, "refusal": None}


def _usage(reply: Reply) -> dict[str, int]:
    prompt, sampled = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


async def streamed(
    request: Request,
    work: Callable[[Draft], Coroutine[Any, Any, Reply]],
    stream: ChatStream,
    headers: Mapping[str, str],
    silent_s: float,
) -> Response:
    """Return an answer as a stream, once there is something to send or a client may lose patience.

    An error that comes before has the status that it has otherwise; one that comes later is an event of the stream.
    The work is cancelled if the client leaves.

    Args:
        request: The client's request, whose body has been read.
        work: Samples the turn.
        stream: Writes it.
        headers: Headers of the answer.
        silent_s: Seconds without an event after which a comment is sent.

    Raises:
        ClientDisconnect: The client has left.
        Exception: The work raised it before the stream began.
    """
    pieces = _pieces(work, stream, silent_s)
    first = await while_connected(request, _first(pieces))
    return _StreamResponse(first, pieces, headers)


class _StreamResponse(StreamingResponse):
    """A stream that has begun. However it ends, so does the work for it."""

    def __init__(self, first: str, pieces: AsyncGenerator[str], headers: Mapping[str, str]):
        super().__init__(_joined(first, pieces), headers=headers, media_type="text/event-stream")
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Send it."""
        try:
            await super().stream_response(send)
        finally:
            await self._pieces.aclose()


async def _first(pieces: AsyncGenerator[str]) -> str:
    return await anext(pieces)


async def _joined(first: str, pieces: AsyncGenerator[str]) -> AsyncGenerator[str]:
    yield first
    async for piece in pieces:
        yield piece


async def _pieces(
    work: Callable[[Draft], Coroutine[Any, Any, Reply]], stream: ChatStream, silent_s: float
) -> AsyncGenerator[str]:
    news = asyncio.Event()
    draft = Draft(news.set)
    working = asyncio.create_task(work(draft))
    working.add_done_callback(lambda task: news.set() or task.cancelled() or task.exception())  # which marks it as seen
    has_begun = False
    try:
        while await _continues(news, working, silent_s):
            piece = stream.more(draft.text()) if news.is_set() else _ALIVE
            news.clear()
            if piece:
                has_begun = True
                yield piece
        try:
            last = stream.end(working.result())
        except Exception as error:
            if not has_begun:
                raise
            last = stream.failed(problem_of(error).body)
        yield last
    finally:
        working.cancel()


async def _continues(news: asyncio.Event, working: asyncio.Task[Reply], silent_s: float) -> bool:
    """Wait for news, but not for longer than a client does. Return whether the turn continues."""
    try:
        async with asyncio.timeout(silent_s):
            await news.wait()
    except TimeoutError:
        pass
    return not working.done()
