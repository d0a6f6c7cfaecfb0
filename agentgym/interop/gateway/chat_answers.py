"""Writes replies as answers of the chat completions API: whole, and as a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply

_DONE = "data: [DONE]\n\n"


def head_of(session: str, model: str) -> dict[str, Any]:
    """Return what an answer and each piece of a stream begin with."""
    return {"id": f"chatcmpl-{session}-{time.monotonic_ns()}", "created": int(time.time()), "model": model}


def whole(head: Mapping[str, Any], reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """Return a reply as an answer."""
    logprobs = {"content": logprobs_of(reply), "refusal": None} if request.wants_logprobs else None
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish, "logprobs": logprobs}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


class ChatStream:
    """Writes a reply as a stream: its text while it is said, its calls one by one, then why it ended.

    Args:
        head: What each piece begins with.
        request: What is answered. One that asks for log-probabilities gets the text when it is complete.
    """

    def __init__(self, head: Mapping[str, Any], request: ChatRequest):
        self._head, self._request = head, request
        self._said: str | None = None
        """The text that has been sent, once anything has."""

    def more(self, text: str) -> str:
        """Return the piece with what is new in a text; it may be empty."""
        if self._request.wants_logprobs or text == (self._said or ""):
            return ""
        return self._piece(_choice(self._text(text)))

    def end(self, reply: Reply) -> str:
        """Return the other pieces of the whole reply."""
        message = reply.message
        pieces: list[dict[str, Any]] = []
        if self._said is None or self._said != (message["content"] or ""):
            pieces.append(_choice(self._text(message["content"])))
        calls = message.get("tool_calls", [])
        pieces += [_choice({"tool_calls": [{"index": number, **call}]}) for number, call in enumerate(calls)]
        if self._request.wants_logprobs:
            pieces[0]["choices"][0]["logprobs"] = {"content": logprobs_of(reply), "refusal": None}
        pieces.append(_choice({}, reply.finish))
        if self._request.wants_usage:
            pieces.append({"choices": [], "usage": _usage(reply)})
        return "".join(map(self._piece, pieces)) + _DONE

    def failed(self, problem: Mapping[str, Any]) -> str:
        """Return the piece that says why there is no more."""
        return f"data: {json.dumps({'error': dict(problem)})}\n\n{_DONE}"

    def _text(self, text: str | None) -> dict[str, Any]:
        """Return what is new in the text so far."""
        said, self._said = self._said, text or ""
        return {"role": "assistant", "content": text} if said is None else {"content": new_in(self._said, said)}

    def _piece(self, content: Mapping[str, Any]) -> str:
        return f"data: {json.dumps({**self._head, 'object': 'chat.completion.chunk', **content})}\n\n"


def new_in(text: str, said: str) -> str:
    """Return what a text adds to its beginning. Raises `InfrastructureError` if it does not begin so."""
    if not text.startswith(said):
        raise InfrastructureError("the beginning of a turn, which has been sent, has changed; do not stream its answer")
    return text[len(said) :]


def _choice(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def logprobs_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the sampled tokens, those of calls too, with their log-probabilities."""
    return [
        {"token": text, "logprob": logprob, "bytes": [*text.encode()], "top_logprobs": []}
        for text, logprob in reply.logprobs
    ]


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
