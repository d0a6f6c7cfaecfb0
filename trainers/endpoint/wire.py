"""The wire format of chat endpoints: the conversations that they accept, and their answers.

Servers reject calls without results, results without calls, arguments that are not a JSON object, pictures in tool
messages, empty turns and texts (Mistral, Moonshot, Anthropic), and calls without their signature (Gemini); some chat
templates reject two user messages in a row. The model's mistakes are kept as written; the environment explains them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentgym.base import strict_json
from agentgym.base.strict_json import JsonProblem
from agentgym.core.engine.spaces import CUT_REASONS
from agentgym.core.history import drop_reasoning
from agentgym.core.messages import Message, calls_of, pictures_in, text_of, without_pictures
from agentgym.core.policy import Seat

Wire = dict[str, Any]
"""A message as it is sent."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_MOST_TOKENS = 10**9
"""A higher count is as implausible as a negative one."""

_FINISHES = {
    **dict.fromkeys(CUT_REASONS, "length"),
    "safety": "content_filter",  # Gemini
    "refusal": "content_filter",  # Anthropic
    "sensitive": "content_filter",  # Zhipu
}
"""Maps other vendors' finish reasons, in lower case, to OpenAI's."""
_GIVEN_UP = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
"""Finish reasons of turns that the server aborted (vLLM, SGLang, DeepSeek, Zhipu): their text is discarded."""

_THOUGHTS = ("thinking", "reasoning")
"""Words in the types of content parts that are reasoning."""
_THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields for reasoning: DeepSeek, SGLang and llama.cpp; vLLM, OpenRouter and Groq."""


def with_calls(messages: Iterable[Message], *, pictures: bool, reasoning: str | None) -> list[Wire]:
    """Return a conversation with native tool calls.

    Args:
        messages: The conversation; each call has a unique id and a result.
        pictures: Whether the model accepts pictures; pictures of tools follow their results in a user message.
        reasoning: The field for the model's reasoning in earlier turns; `None` leaves it out.
    """
    sent: list[Wire] = []
    tool_pictures: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        if message.get("role") != "tool":
            _add(sent, "user", tool_pictures)
            tool_pictures = []
        if message.get("role") == "assistant":
            sent += _unless_empty(_assistant_turn(message, reasoning))
        elif message.get("role") == "tool":
            sent.append(
                {"role": "tool", "tool_call_id": message.get("tool_call_id"), "content": _text(message, pictures)}
            )
            tool_pictures += _pictures(message) if pictures else []
        else:
            _add(sent, str(message.get("role")), _content(message, pictures))
    _add(sent, "user", tool_pictures)
    return sent


def as_text(
    messages: Iterable[Message], seat: Seat, *, pictures: bool, reasoning: str | None, results: Literal["user", "tool"]
) -> list[Wire]:
    """Return a conversation for a model that writes calls as text.

    Args:
        messages: The conversation.
        seat: Its dialect writes the calls of an opening conversation.
        pictures: Whether the model accepts pictures.
        reasoning: The field for the model's reasoning in earlier turns; `None` leaves it out.
        results: The role of results. Results with pictures are always user messages. With "tool", empty turns stay, as
            in training.
    """
    sent: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        role = str(message.get("role"))
        has_pictures = pictures and bool(pictures_in(message))
        if role == "assistant":
            turn = {"role": role, "content": _text_with_calls(message, seat), **_reasoning(message, reasoning)}
            sent += [turn] if results == "tool" else _unless_empty(turn)
        elif role == "tool" and results == "tool" and not has_pictures:
            sent.append({"role": role, "content": _text(message, pictures)})
        elif role == "tool":
            text = f"<tool_response>\n{_text(message, pictures)}\n</tool_response>"
            _add(sent, "user", [*_block(text), *_pictures(message)] if has_pictures else text)
        else:
            _add(sent, role, _content(message, pictures))
    return sent


def with_system(sent: Iterable[Wire], role: str) -> list[Wire]:
    """Return a conversation with its system messages in another role, joined to neighbours of that role."""
    messages: list[Wire] = []
    for message in sent:
        if message["role"] in ("system", "user"):
            _add(messages, role if message["role"] == "system" else "user", message["content"])
        else:
            messages.append(message)
    return messages


def _add(sent: list[Wire], role: str, content: str | list[Wire]) -> None:
    """Append a message, or join it to the last one if that has the same role."""
    if not content and isinstance(content, list):
        return
    if not sent or sent[-1]["role"] != role:
        sent.append({"role": role, "content": content})
        return
    before = sent[-1]["content"]
    if isinstance(before, str) and isinstance(content, str):
        sent[-1] = {"role": role, "content": f"{before}\n\n{content}"}
    else:
        sent[-1] = {"role": role, "content": [*_block(before), *_block(content)]}


def _unless_empty(turn: Wire) -> list[Wire]:
    """Return a turn, unless it is empty: servers reject it, and the message after it says that it was empty."""
    return [turn] if turn["content"].strip() or set(turn) > {"role", "content"} else []


def _block(content: str | list[Wire]) -> list[Wire]:
    if not isinstance(content, str):
        return content
    return [{"type": "text", "text": content}] if content.strip() else []


def _content(message: Message, pictures: bool) -> str | list[Wire]:
    if pictures and pictures_in(message):
        return [*_block(text_of(message)), *_pictures(message)]
    return _text(message, pictures)


def _text(message: Message, pictures: bool) -> str:
    return text_of(message if pictures else without_pictures(message))


def _pictures(message: Message) -> list[Wire]:
    """Return the pictures of a message as blocks with data URLs."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    images = [block["base64"] for block in blocks if block.get("type") == "image" and block.get("base64")]
    return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}} for data in images]


def _assistant_turn(message: Mapping[str, Any], reasoning: str | None) -> Wire:
    text = text_of(message)
    turn: Wire = {"role": "assistant", "content": text if text.strip() else "", **_reasoning(message, reasoning)}
    if calls := message.get("tool_calls"):
        turn["tool_calls"] = [_call(entry) for entry in calls]
    return turn | _seals(message)


def _reasoning(message: Mapping[str, Any], field: str | None) -> Wire:
    """Return the reasoning of a turn in the field that the server reads, and in its signed form if it has one."""
    if field is None:
        return {}
    named = {field: message.get("reasoning_content"), "reasoning_details": message.get("reasoning_details")}
    return {name: value for name, value in named.items() if value}


def _seals(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content that a server requires back unchanged, such as Gemini's thought signatures."""
    return {"extra_content": sealed} if (sealed := part.get("extra_content")) else {}


def _call(entry: Mapping[str, Any]) -> Wire:
    function = entry["function"]
    name = _NOT_IN_NAMES.sub("_", str(function["name"]))[:64] or "unknown"
    return {
        "id": entry["id"],
        "type": "function",
        "function": {"name": name, "arguments": _arguments(function.get("arguments"))},
        **_seals(entry),
    }


def _arguments(arguments: Any) -> str:
    """Return arguments as the text of a JSON object. Invalid arguments are quoted inside an object."""
    if not isinstance(arguments, str):
        return json.dumps(arguments or {})
    if not arguments.strip():
        return "{}"
    try:
        strict_json.read_object(arguments)
    except JsonProblem:  # other parsers reject NaN and lone surrogates, too
        return json.dumps({"unreadable": arguments.encode("utf-8", "replace").decode()})
    return arguments


def _text_with_calls(message: Mapping[str, Any], seat: Seat) -> str:
    calls: Sequence[Any] = calls_of(message)
    return seat.dialect.render(text_of(message), calls, seat.tools) if calls else text_of(message)


@dataclass(frozen=True)
class TokenCounts:
    """The tokens of one request, as the endpoint counts them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Cached tokens of the prompt."""
    complete: bool = True
    """Whether the endpoint reported both counts; a missing count is 0."""

    @property
    def total(self) -> int:
        """Tokens of the prompt and the completion."""
        return self.prompt + self.completion


class UnreadableAnswer(Exception):
    """An answer that is not a chat completion: the server's fault, not the model's. Its tokens are still charged."""

    def __init__(self, problem: str, tokens: TokenCounts | None = None):
        super().__init__(problem)
        self.tokens = tokens


@dataclass(frozen=True)
class Answer:
    """One chat completion."""

    message: dict[str, Any]
    """The assistant message, with `finish_reason`, and `reasoning_content` if there was any."""
    tokens: TokenCounts | None
    """`None` if the endpoint does not report its tokens."""
    cost: float | None = None
    """In the currency of the prices; `None` without a price."""
    reasoning_field: str | None = None
    """The field of the message that held the reasoning, if any. Servers read it only from that field."""

    @property
    def cut_off(self) -> bool:
        """Whether the turn reached its token limit."""
        return self.message["finish_reason"] == "length"

    @property
    def filtered(self) -> bool:
        """Whether the endpoint's filter withheld the turn or a part of it."""
        return self.message["finish_reason"] == "content_filter"


def read_answer(body: bytes) -> Answer:
    """Return the chat completion in a response's body. Raises `UnreadableAnswer`."""
    data: Any = None
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        finish = str(choice.get("finish_reason") or "stop")
        finish = _FINISHES.get(finish.lower(), finish)
        if choice.get("error") or finish in _GIVEN_UP:
            raise ValueError("the model's provider has failed")
        reply = choice["message"]
        message = _message_from(reply) | {"finish_reason": finish}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        hint = "a web page (does the URL end with /v1?), " if body.lstrip()[:1] == b"<" else ""
        paid = _tokens(data.get("usage")) if isinstance(data, Mapping) else None
        raise UnreadableAnswer(f"{hint}not a chat completion: {body[:200]!r}", paid) from error
    tokens = _tokens(data.get("usage"))
    if finish == "length" and tokens is not None and tokens.completion:
        message["completion_tokens"] = tokens.completion
    return Answer(message, tokens, reasoning_field=_reasoning_field(reply))


def _message_from(reply: Mapping[str, Any]) -> dict[str, Any]:
    text, thoughts = _text_and_reasoning(reply.get("content"))
    message: dict[str, Any] = {"role": "assistant", "content": text or str(reply.get("refusal") or "")}
    if calls := reply.get("tool_calls"):
        message["tool_calls"] = [_call_from(entry) for entry in calls]
    elif legacy := reply.get("function_call"):
        message["tool_calls"] = [_call_from({"function": legacy})]
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
    """Return the text of OpenRouter's reasoning blocks; encrypted blocks have none."""
    blocks = [block for block in details if isinstance(block, Mapping)] if isinstance(details, list) else []
    return "".join(str(block.get("text") or block.get("summary") or "") for block in blocks)


def _text_and_reasoning(content: Any) -> tuple[str, str]:
    """Return the text and the reasoning in a message's content, which is text or a list of parts.

    Raises `TypeError` for anything else, which would otherwise look like an empty turn.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    if not isinstance(content, list):
        raise TypeError(f"content is {type(content).__name__}")
    parts = [part if isinstance(part, Mapping) else {"type": "text", "text": part} for part in content]
    texts = (part for part in parts if not _is_thought(part))
    return _joined(texts), "".join(map(_thought, filter(_is_thought, parts)))


def _joined(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(map(_part_text, parts))


def _is_thought(part: Mapping[str, Any]) -> bool:
    return any(word in str(part.get("type")) for word in _THOUGHTS)


def _thought(part: Mapping[str, Any]) -> str:
    """Return the text of a reasoning part; an encrypted part has none."""
    try:
        return _part_text(part)
    except TypeError:
        return ""


def _part_text(part: Mapping[str, Any]) -> str:
    """Return the text of a part, from `text` or the field named like its type. Raises `TypeError` without text."""
    text = part.get("text", part.get(str(part.get("type"))))
    if isinstance(text, list):
        return _joined(inner if isinstance(inner, Mapping) else {"text": inner} for inner in text)
    if not isinstance(text, str):
        raise TypeError(f"a part without text: {part.get('type')}")
    return text


def _call_from(entry: Mapping[str, Any]) -> dict[str, Any]:
    function = entry["function"]
    name, arguments = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("a call without a name")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):  # some servers parse the arguments, even NaN
        arguments = json.dumps(arguments, ensure_ascii=False)
    call = {"id": entry.get("id"), "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
    return call | _seals(entry)


def _tokens(usage: Any) -> TokenCounts | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return TokenCounts(prompt or 0, completion or 0, complete=False)
    # xAI and Gemini include the tokens of the reasoning, which are charged, only in the total.
    completion = max(completion, (_count(usage.get("total_tokens")) or 0) - prompt)
    return TokenCounts(prompt, completion, min(prompt, _cached(usage)))


def _cached(usage: Mapping[str, Any]) -> int:
    """Return the cached tokens of the prompt, from OpenAI's field or else DeepSeek's."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return _count(usage.get("prompt_cache_hit_tokens") if cached is None else cached) or 0


def _count(value: Any) -> int | None:
    """Return a number of tokens, or `None` for an implausible value."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS else None
