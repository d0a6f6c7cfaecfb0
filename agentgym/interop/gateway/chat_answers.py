"""Writes replies as answers of the chat completions API: whole, and as a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply


def head_of(session: str, model: str) -> dict[str, Any]:
    """Return what an answer and each piece of a stream begin with."""
    return {"id": f"chatcmpl-{session}-{time.monotonic_ns()}", "created": int(time.time()), "model": model}


def whole(head: Mapping[str, Any], reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """Return a reply as an answer."""
    logprobs = {"content": logprobs_of(reply), "refusal": None} if request.wants_logprobs else None
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish, "logprobs": logprobs}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


def stream(head: Mapping[str, Any], reply: Reply, request: ChatRequest) -> Iterator[str]:
    """Yield a reply as a stream: what was said in one piece each, then why it ended."""
    message = reply.message
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    calls = message.get("tool_calls", [])
    deltas += [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if request.wants_logprobs:
        choices[0]["logprobs"] = {"content": logprobs_of(reply), "refusal": None}
    choices.append({"index": 0, "delta": {}, "finish_reason": reply.finish})
    chunks: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    if request.wants_usage:
        chunks.append({"choices": [], "usage": _usage(reply)})
    for chunk in chunks:
        yield f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', **chunk})}\n\n"
    yield "data: [DONE]\n\n"


def logprobs_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the sampled tokens, those of calls too, with their log-probabilities."""
    return [
        {"token": text, "logprob": logprob, "bytes": [*text.encode()], "top_logprobs": []}
        for text, logprob in reply.logprobs
    ]


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
