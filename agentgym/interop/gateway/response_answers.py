"""Writes replies as answers of the Responses API: whole, and as a stream of typed events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from agentgym.interop.gateway.chat_answers import logprobs_of
from agentgym.interop.gateway.items import reasoned
from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply

_Item = dict[str, Any]
_ECHOED = ("instructions", "max_output_tokens", "previous_response_id", "reasoning", "user")


def response_of(body: Mapping[str, Any], request: ChatRequest, reply: Reply, temperature: float | None) -> _Item:
    """Return a reply as an answer.

    Args:
        body: The request.
        request: The same as a chat request.
        reply: What the model said.
        temperature: With which it was sampled, whatever the request asked for.
    """
    is_cut = reply.finish == "length"
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "model": request.model,
        "output": _items(reply, request, "incomplete" if is_cut else "completed"),
        **{name: body.get(name) for name in _ECHOED},
        "metadata": body.get("metadata") or {},
        "parallel_tool_calls": not request.one_call,
        "temperature": temperature,
        "top_p": 1.0,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "usage": _usage(reply),
    }


def events(response: _Item) -> Iterator[str]:
    """Yield an answer as a stream of events."""
    for number, event in enumerate(_events(response)):
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"


def _events(response: _Item) -> Iterator[_Item]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index}
        yield {"type": "response.output_item.added", **place, "item": _begun(item)}
        for event in _PIECES[item["type"]](item):
            yield {**event, **place, "item_id": item["id"]}
        yield {"type": "response.output_item.done", **place, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _begun(item: _Item) -> _Item:
    empty: _Item = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return {**item, **empty, "status": "in_progress"}


def _pieces_of_message(item: _Item) -> Iterator[_Item]:
    [part] = item["content"]
    place, said = {"content_index": 0}, {"logprobs": part.get("logprobs", [])}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": "", "logprobs": []}}
    yield {"type": "response.output_text.delta", **place, "delta": part["text"], **said}
    yield {"type": "response.output_text.done", **place, "text": part["text"], **said}
    yield {"type": "response.content_part.done", **place, "part": part}


def _pieces_of_reasoning(item: _Item) -> Iterator[_Item]:
    [part] = item["content"]
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    yield {"type": "response.reasoning_text.delta", **place, "delta": part["text"]}
    yield {"type": "response.reasoning_text.done", **place, "text": part["text"]}
    yield {"type": "response.content_part.done", **place, "part": part}


def _pieces_of_call(item: _Item) -> Iterator[_Item]:
    arguments = item["arguments"]
    yield {"type": "response.function_call_arguments.delta", "delta": arguments}
    yield {"type": "response.function_call_arguments.done", "name": item["name"], "arguments": arguments}


_PIECES = {"message": _pieces_of_message, "reasoning": _pieces_of_reasoning, "function_call": _pieces_of_call}


def _items(reply: Reply, request: ChatRequest, status: str) -> list[_Item]:
    """Return what the model said as items: reasoning, text and calls."""
    calls: Sequence[Mapping[str, Any]] = reply.message.get("tool_calls", ())
    thought, text = reasoned(reply.message["content"] or "")
    items: list[_Item] = []
    if thought:
        parts = [{"type": "reasoning_text", "text": thought}]
        items.append({"id": f"rs_{uuid4().hex}", "type": "reasoning", "summary": [], "content": parts})
    if text or not calls:
        logprobs = {"logprobs": logprobs_of(reply)} if request.wants_logprobs else {}
        part = {"type": "output_text", "text": text, "annotations": [], **logprobs}
        message = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "content": [part]}
        items.append({**message, "status": status})
    return items + [_call(call, status) for call in calls]


def _call(call: Mapping[str, Any], status: str) -> _Item:
    function = call["function"]
    return {
        "id": f"fc_{uuid4().hex}",
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
        "status": status,
    }


def _usage(reply: Reply) -> _Item:
    read, said = reply.prompt_tokens, reply.completion_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + said,
    }
