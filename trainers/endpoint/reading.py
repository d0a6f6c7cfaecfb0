"""Reads an endpoint's answers. What the model got wrong is kept as it wrote it; the environment explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.messages import text_of

_MOST_TOKENS = 10**9
"""No request has more; a count above is as wrong as a negative one."""


class Unreadable(Exception):
    """An answer that is no chat completion: the server's fault, not the model's."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one request, as the endpoint counts them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Tokens of the prompt that the endpoint had cached."""

    @property
    def total(self) -> int:
        """Tokens of the prompt and the completion."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Answer:
    """One chat completion."""

    message: dict[str, Any]
    """The assistant message, with `finish_reason`, and `reasoning_content` if there was any."""
    tokens: Tokens | None
    """`None` if the endpoint does not report them."""
    cost: float | None = None
    """In the currency of the prices; `None` without a price."""

    @property
    def cut_off(self) -> bool:
        """Whether the turn hit its limit of tokens."""
        return self.message["finish_reason"] == "length"


def read_answer(body: bytes) -> Answer:
    """Return the chat completion in a response's body. Raises `Unreadable`."""
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        reply = choice["message"]
        message = _message(reply) | {"finish_reason": str(choice.get("finish_reason") or "stop")}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"not a chat completion: {body[:200]!r}") from error
    return Answer(message, _tokens(data.get("usage")))


def _message(reply: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply) or str(reply.get("refusal") or "")}
    if calls := reply.get("tool_calls"):
        message["tool_calls"] = [_call(entry) for entry in calls]
    if reasoning := reply.get("reasoning_content") or reply.get("reasoning"):
        message["reasoning_content"] = str(reasoning)
    return message


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    function = entry["function"]
    name, arguments = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("a call without a name")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):  # some servers read what the model wrote, even NaN
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": entry.get("id"), "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    prompt = _count(usage.get("prompt_tokens"))
    return Tokens(prompt, _count(usage.get("completion_tokens")), min(prompt, _count(cached)))


def _count(value: Any) -> int:
    """Return a number of tokens; 0 for what cannot be one."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS else 0
