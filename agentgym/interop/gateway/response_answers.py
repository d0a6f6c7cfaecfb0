"""Writes replies as answers of the Responses API."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from agentgym.interop.gateway.chat_answers import logprobs_of
from agentgym.interop.gateway.items import reasoned
from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply

_Item = dict[str, Any]
_ECHOED = ("instructions", "max_output_tokens", "previous_response_id", "reasoning", "user")


@dataclass(frozen=True)
class Named:
    """The ids in an answer, which a stream tells before the answer is complete."""

    response: str = field(default_factory=lambda: f"resp_{uuid4().hex}")
    reasoning: str = field(default_factory=lambda: f"rs_{uuid4().hex}")
    message: str = field(default_factory=lambda: f"msg_{uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))


class Answering:
    """Writes the reply to a request as an answer.

    Args:
        body: The request.
        request: The same as a chat request.
        temperature: With which is sampled, whatever the request asks for.
    """

    def __init__(self, body: Mapping[str, Any], request: ChatRequest, temperature: float | None):
        self.named = Named()
        self._body, self._request, self._temperature = body, request, temperature

    def whole(self, reply: Reply) -> _Item:
        """Return a reply as an answer."""
        is_cut = reply.finish == "length"
        status = "incomplete" if is_cut else "completed"
        return {
            **self.begun(),
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": _items(reply, self._request, self.named, status),
            "usage": _usage(reply),
        }

    def begun(self) -> _Item:
        """Return the answer before the model has said anything."""
        body, request = self._body, self._request
        return {
            "id": self.named.response,
            "object": "response",
            "created_at": self.named.created_at,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": request.model,
            "output": [],
            **{name: body.get(name) for name in _ECHOED},
            "metadata": body.get("metadata") or {},
            "parallel_tool_calls": not request.one_call,
            "temperature": self._temperature,
            "top_p": 1.0,
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "text": {"format": {"type": "text"}},
            "truncation": "disabled",
            "usage": None,
        }


def _items(reply: Reply, request: ChatRequest, named: Named, status: str) -> list[_Item]:
    """Return what the model said as items: reasoning, text and calls."""
    calls: Sequence[Mapping[str, Any]] = reply.message.get("tool_calls", ())
    thought, text = reasoned(reply.message["content"] or "")
    items: list[_Item] = [reasoning_item(named, thought)] if thought else []
    if text or not calls:
        items.append(message_item(named, text, status, logprobs_of(reply) if request.wants_logprobs else None))
    return items + [_call(call, status) for call in calls]


def reasoning_item(named: Named, thought: str) -> _Item:
    """Return the item with the model's reasoning."""
    parts = [{"type": "reasoning_text", "text": thought}]
    return {"id": named.reasoning, "type": "reasoning", "summary": [], "content": parts}


def message_item(named: Named, text: str, status: str, logprobs: list[dict[str, Any]] | None = None) -> _Item:
    """Return the item with the model's text, and the log-probabilities of its tokens if they are wanted."""
    told = {} if logprobs is None else {"logprobs": logprobs}
    part = {"type": "output_text", "text": text, "annotations": [], **told}
    return {"id": named.message, "type": "message", "role": "assistant", "content": [part], "status": status}


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
