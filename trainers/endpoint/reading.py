"""Reads an endpoint's answers. What the model got wrong is kept as it wrote it; the environment explains it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_TOKENS = 10**9
"""No request has more; a count above is as wrong as a negative one."""

_FINISHES = {
    "model_length": "length",  # Mistral
    "max_tokens": "length",  # Anthropic, Gemini
    "model_context_window_exceeded": "length",  # Anthropic, Zhipu
    "safety": "content_filter",  # Gemini
    "refusal": "content_filter",  # Anthropic
    "sensitive": "content_filter",  # Zhipu
}
"""OpenAI's words for why a turn ended, by those of others in small letters."""
_GIVEN_UP = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
"""How turns finish that the server gave up (vLLM, SGLang, DeepSeek, Zhipu): what was said until then is no turn."""

_THOUGHTS = ("thinking", "reasoning")
"""Words in the types of those parts of a content that are reasoning."""
_THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Where servers put reasoning: DeepSeek, SGLang and llama.cpp; vLLM, OpenRouter and Groq."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one request, as the endpoint counts them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Tokens of the prompt that the endpoint had cached."""
    complete: bool = True
    """Whether the endpoint counted both; what it did not count is 0."""

    @property
    def total(self) -> int:
        """Tokens of the prompt and the completion."""
        return self.prompt + self.completion


class Unreadable(Exception):
    """An answer that is no chat completion: the server's fault, not the model's. Its tokens are paid all the same."""

    def __init__(self, problem: str, tokens: Tokens | None = None):
        super().__init__(problem)
        self.tokens = tokens


@dataclass(frozen=True)
class Answer:
    """One chat completion."""

    message: dict[str, Any]
    """The assistant message, with `finish_reason`, and `reasoning_content` if there was any."""
    tokens: Tokens | None
    """`None` if the endpoint does not report them."""
    cost: float | None = None
    """In the currency of the prices; `None` without a price."""
    reasoning_field: str | None = None
    """Where in the message the reasoning stood, if it had a field of its own. Servers read it in that field only."""

    @property
    def cut_off(self) -> bool:
        """Whether the turn hit its limit of tokens."""
        return self.message["finish_reason"] == "length"

    @property
    def filtered(self) -> bool:
        """Whether the endpoint's filter withheld the turn or the rest of it."""
        return self.message["finish_reason"] == "content_filter"


def read_answer(body: bytes) -> Answer:
    """Return the chat completion in a response's body. Raises `Unreadable`."""
    data: Any = None
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        finish = str(choice.get("finish_reason") or "stop")
        finish = _FINISHES.get(finish.lower(), finish)
        if choice.get("error") or finish in _GIVEN_UP:
            raise ValueError("the model's provider has failed")
        reply = choice["message"]
        message = _message(reply) | {"finish_reason": finish}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        hint = "a web page (does the URL end with /v1?), " if body.lstrip()[:1] == b"<" else ""
        paid = _tokens(data.get("usage")) if isinstance(data, Mapping) else None
        raise Unreadable(f"{hint}not a chat completion: {body[:200]!r}", paid) from error
    return Answer(message, _tokens(data.get("usage")), reasoning_field=_reasoning_field(reply))


def _message(reply: Mapping[str, Any]) -> dict[str, Any]:
    text, thoughts = _content(reply.get("content"))
    message: dict[str, Any] = {"role": "assistant", "content": text or str(reply.get("refusal") or "")}
    if calls := reply.get("tool_calls"):
        message["tool_calls"] = [_call(entry) for entry in calls]
    elif legacy := reply.get("function_call"):
        message["tool_calls"] = [_call({"function": legacy})]
    details = reply.get("reasoning_details")
    field = _reasoning_field(reply)
    if reasoning := reply[field] if field else thoughts or _summary(details):
        message["reasoning_content"] = str(reasoning)
    if details:
        message["reasoning_details"] = details
    return message | _seals(reply)


def _reasoning_field(reply: Mapping[str, Any]) -> str | None:
    return next((name for name in _THOUGHT_FIELDS if reply.get(name)), None)


def _summary(details: Any) -> str:
    """Return what OpenRouter's blocks of reasoning tell; encrypted ones tell nothing."""
    blocks = [block for block in details if isinstance(block, Mapping)] if isinstance(details, list) else []
    return "".join(str(block.get("text") or block.get("summary") or "") for block in blocks)


def _seals(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server wants back as it is with a message or a call, such as Gemini's signatures of thoughts."""
    return {"extra_content": sealed} if (sealed := part.get("extra_content")) else {}


def _content(content: Any) -> tuple[str, str]:
    """Return the text and the reasoning in a message's content: a text, or a list of parts.

    Raises `TypeError` for anything else: if it were left out, the model would seem to have said nothing.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    if not isinstance(content, list):
        raise TypeError(f"content is {type(content).__name__}")
    parts = [part if isinstance(part, Mapping) else {"type": "text", "text": part} for part in content]
    said = (part for part in parts if not _is_thought(part))
    return _joined(said), "".join(map(_thought, filter(_is_thought, parts)))


def _joined(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(map(_text, parts))


def _is_thought(part: Mapping[str, Any]) -> bool:
    return any(word in str(part.get("type")) for word in _THOUGHTS)


def _thought(part: Mapping[str, Any]) -> str:
    """Return the text of a part that is reasoning, which may be encrypted; then it has none."""
    try:
        return _text(part)
    except TypeError:
        return ""


def _text(part: Mapping[str, Any]) -> str:
    """Return the text of a part, which stands under `text` or the name of its type. Raises `TypeError` if none does."""
    found = part.get("text", part.get(str(part.get("type"))))
    if isinstance(found, list):
        return _joined(inner if isinstance(inner, Mapping) else {"text": inner} for inner in found)
    if not isinstance(found, str):
        raise TypeError(f"a part without text: {part.get('type')}")
    return found


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    function = entry["function"]
    name, arguments = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("a call without a name")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):  # some servers read what the model wrote, even NaN
        arguments = json.dumps(arguments, ensure_ascii=False)
    call = {"id": entry.get("id"), "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
    return call | _seals(entry)


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return Tokens(prompt or 0, completion or 0, complete=False)
    # xAI and Gemini count the tokens of the reasoning, which are paid, in the total alone.
    completion = max(completion, (_count(usage.get("total_tokens")) or 0) - prompt)
    return Tokens(prompt, completion, min(prompt, _cached(usage)))


def _cached(usage: Mapping[str, Any]) -> int:
    """Return the tokens of the prompt that the endpoint had cached: OpenAI's field, else DeepSeek's."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return _count(usage.get("prompt_cache_hit_tokens") if cached is None else cached) or 0


def _count(value: Any) -> int | None:
    """Return a number of tokens; `None` for what cannot be one."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS else None
