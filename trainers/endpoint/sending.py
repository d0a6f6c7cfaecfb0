"""Writes conversations in the form that chat endpoints accept.

Servers refuse a call without an answer, an answer without a call, arguments that are no JSON object, pictures in tool
messages, turns and texts with nothing in them (Mistral, Moonshot, Anthropic), and calls without the signature that came
with them (Gemini); some chat templates refuse two user messages in a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from agentgym.history import drop_reasoning
from agentgym.messages import Message, calls_of, pictures_in, text_of, without_pictures
from agentgym.records import strict_json
from agentgym.records.strict_json import JsonProblem
from agentgym.seat import Seat

Wire = dict[str, Any]
"""A message as it is sent."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def with_calls(messages: Iterable[Message], *, pictures: bool, reasoning: str | None) -> list[Wire]:
    """Return a conversation with native tool calls.

    Args:
        messages: The conversation; each call has an id of its own and is answered.
        pictures: Whether the model sees pictures; those of tools follow their results in a user message.
        reasoning: The field in which the model's reasoning in earlier turns is sent; `None` leaves it out.
    """
    sent: list[Wire] = []
    shown: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        if message.get("role") != "tool":
            _add(sent, "user", shown)
            shown = []
        if message.get("role") == "assistant":
            sent += _unless_empty(_assistant_turn(message, reasoning))
        elif message.get("role") == "tool":
            sent.append(
                {"role": "tool", "tool_call_id": message.get("tool_call_id"), "content": _text(message, pictures)}
            )
            shown += _pictures(message) if pictures else []
        else:
            _add(sent, str(message.get("role")), _content(message, pictures))
    _add(sent, "user", shown)
    return sent


def as_text(
    messages: Iterable[Message], seat: Seat, *, pictures: bool, reasoning: str | None, results: Literal["user", "tool"]
) -> list[Wire]:
    """Return a conversation for a model that writes calls as text.

    Args:
        messages: The conversation.
        seat: Has the dialect that writes the calls of an opening conversation.
        pictures: Whether the model sees pictures.
        reasoning: The field in which the model's reasoning in earlier turns is sent; `None` leaves it out.
        results: The role of results. Those with pictures are user messages in any case. With "tool", turns with nothing
            in them stay, as in training.
    """
    sent: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        role = str(message.get("role"))
        seen = pictures and bool(pictures_in(message))
        if role == "assistant":
            turn = {"role": role, "content": _written(message, seat), **_reasoning(message, reasoning)}
            sent += [turn] if results == "tool" else _unless_empty(turn)
        elif role == "tool" and results == "tool" and not seen:
            sent.append({"role": role, "content": _text(message, pictures)})
        elif role == "tool":
            text = f"<tool_response>\n{_text(message, pictures)}\n</tool_response>"
            _add(sent, "user", [*_block(text), *_pictures(message)] if seen else text)
        else:
            _add(sent, role, _content(message, pictures))
    return sent


def with_system(sent: Iterable[Wire], role: str) -> list[Wire]:
    """Return a conversation with its system messages in another role, in which they may join the message after them."""
    moved: list[Wire] = []
    for message in sent:
        if message["role"] in ("system", "user"):
            _add(moved, role if message["role"] == "system" else "user", message["content"])
        else:
            moved.append(message)
    return moved


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
    """Return a turn, unless nothing is in it: servers refuse it, and the message after it says that it was empty."""
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
    found = [block["base64"] for block in blocks if block.get("type") == "image" and block.get("base64")]
    return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}} for data in found]


def _assistant_turn(message: Mapping[str, Any], reasoning: str | None) -> Wire:
    text = text_of(message)
    turn: Wire = {"role": "assistant", "content": text if text.strip() else "", **_reasoning(message, reasoning)}
    if calls := message.get("tool_calls"):
        turn["tool_calls"] = [_call(entry) for entry in calls]
    return turn | _seals(message)


def _reasoning(message: Mapping[str, Any], field: str | None) -> Wire:
    """Return the reasoning of a turn in the field that the server reads, and as it gave it, if that is signed."""
    if field is None:
        return {}
    named = {field: message.get("reasoning_content"), "reasoning_details": message.get("reasoning_details")}
    return {name: value for name, value in named.items() if value}


def _seals(part: Mapping[str, Any]) -> Wire:
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


def _arguments(written: Any) -> str:
    """Return arguments as the text of a JSON object. What the model wrote instead of one is quoted in one."""
    if not isinstance(written, str):
        return json.dumps(written or {})
    if not written.strip():
        return "{}"
    try:
        strict_json.read_object(written)
    except JsonProblem:  # other readers refuse NaN and halves of characters, too
        return json.dumps({"unreadable": written.encode("utf-8", "replace").decode()})
    return written


def _written(message: Mapping[str, Any], seat: Seat) -> str:
    calls: Sequence[Any] = calls_of(message)
    return seat.dialect.render(text_of(message), calls, seat.tools) if calls else text_of(message)
