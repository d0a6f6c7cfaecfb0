"""Writes replies as chat completions: whole, or as streams that begin while the turn is still being sampled."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agentgym.base.errors import InfrastructureError
from agentgym.interop.bodies import while_connected
from agentgym.interop.served.gateway.request import ChatRequest, chat_error
from agentgym.interop.served.gateway.row import ChatReply
from agentgym.interop.served.gateway.turn import TurnDraft

_DONE = "data: [DONE]\n\n"

_ALIVE = ": the model is at work\n\n"
"""A comment, which clients ignore."""


def head_of(session: str, model: str) -> dict[str, Any]:
    """Return the common fields of a response and of each chunk of a stream."""
    return {"id": f"chatcmpl-{session}-{time.monotonic_ns()}", "created": int(time.time()), "model": model}


def completion(head: Mapping[str, Any], reply: ChatReply, request: ChatRequest) -> dict[str, Any]:
    """Return a reply as a complete response."""
    logprobs = _logprobs(reply) if request.wants_logprobs else None
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish, "logprobs": logprobs}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


class ChatStream:
    """Writes a reply as a stream: its text while it is sampled, its calls one by one, then the finish reason.

    Args:
        head: The fields that each chunk begins with.
        request: The request to answer. If it asks for log-probabilities, the text is sent once it is complete.
    """

    def __init__(self, head: Mapping[str, Any], request: ChatRequest):
        self._head, self._request = head, request
        self._sent: str | None = None
        """The text sent so far; `None` before the first chunk."""

    def more(self, text: str) -> str:
        """Return the chunk with the new part of a text; it may be empty."""
        if self._request.wants_logprobs or text == (self._sent or ""):
            return ""
        return self._piece(_choice(self._delta(text)))

    def end(self, reply: ChatReply) -> str:
        """Return the remaining chunks of the reply."""
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
        """Return the chunk with an error, which ends the stream."""
        return f"data: {json.dumps({'error': dict(problem)})}\n\n{_DONE}"

    def _delta(self, text: str | None) -> dict[str, Any]:
        """Return the part of the text that has not been sent, and mark it as sent."""
        sent, self._sent = self._sent, text or ""
        return {"role": "assistant", "content": text} if sent is None else {"content": _rest(self._sent, sent)}

    def _piece(self, content: Mapping[str, Any]) -> str:
        return f"data: {json.dumps({**self._head, 'object': 'chat.completion.chunk', **content})}\n\n"


def _rest(text: str, beginning: str) -> str:
    """Return a text without its beginning. Raises `InfrastructureError` if it does not start with it."""
    if not text.startswith(beginning):
        raise InfrastructureError("text of the turn that was already sent has changed; do not stream this request")
    return text[len(beginning) :]


def _choice(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _logprobs(reply: ChatReply) -> dict[str, Any]:
    """Return all sampled tokens, including those of calls, with their log-probabilities."""
    content = [
        {"token": text, "logprob": logprob, "bytes": [*text.encode()], "top_logprobs": []}
        for text, logprob in reply.logprobs
    ]
    return {"content": content, "refusal": None}


def _usage(reply: ChatReply) -> dict[str, int]:
    prompt, sampled = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


async def streamed(
    request: Request,
    work: Callable[[TurnDraft], Coroutine[Any, Any, ChatReply]],
    stream: ChatStream,
    headers: Mapping[str, str],
    silent_s: float,
) -> Response:
    """Return a streaming response, once there is something to send or `silent_s` have passed.

    An error before that has its usual status; a later error is an event of the stream. The work is cancelled if the
    client leaves.

    Args:
        request: The client's request, whose body has been read.
        work: Samples the turn.
        stream: Writes it.
        headers: Headers of the response.
        silent_s: Seconds without an event after which a comment is sent.

    Raises:
        ClientDisconnect: The client has left.
        Exception: The work failed before the stream began.
    """
    pieces = _pieces(work, stream, silent_s)
    first = await while_connected(request, _first(pieces))
    return _StreamResponse(first, pieces, headers)


class _StreamResponse(StreamingResponse):
    """A stream whose first chunk is ready. Its work ends with the stream, however that ends."""

    def __init__(self, first: str, pieces: AsyncGenerator[str], headers: Mapping[str, str]):
        super().__init__(_joined(first, pieces), headers=headers, media_type="text/event-stream")
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Send the stream."""
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
    work: Callable[[TurnDraft], Coroutine[Any, Any, ChatReply]], stream: ChatStream, silent_s: float
) -> AsyncGenerator[str]:
    news = asyncio.Event()
    draft = TurnDraft(news.set)
    working = asyncio.create_task(work(draft))
    working.add_done_callback(lambda task: news.set() or task.cancelled() or task.exception())  # marks it as retrieved
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
            last = stream.failed(chat_error(error).body)
        yield last
    finally:
        working.cancel()


async def _continues(news: asyncio.Event, working: asyncio.Task[ChatReply], silent_s: float) -> bool:
    """Wait for news for up to `silent_s`. Return whether the turn continues."""
    try:
        async with asyncio.timeout(silent_s):
            await news.wait()
    except TimeoutError:
        pass
    return not working.done()
