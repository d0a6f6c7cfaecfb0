"""Writes conversations in the form that chat endpoints accept.

Servers refuse a call without an answer, an answer without a call, arguments that are no JSON object, and pictures in
tool messages; some chat templates refuse two user messages in a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from agentgym.history import drop_reasoning
from agentgym.messages import Message, calls_of, pictures_in, text_of, without_pictures
from agentgym.seat import Seat

Wire = dict[str, Any]
"""A message as it is sent."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def with_calls(messages: Iterable[Message], *, pictures: bool, reasoning: bool) -> list[Wire]:
    """Return a conversation with native tool calls.

    Args:
        messages: The conversation; each call has an id of its own and is answered.
        pictures: Whether the model sees pictures; those of tools follow their results in a user message.
        reasoning: Whether the model's reasoning in earlier turns is sent.
    """
    sent: list[Wire] = []
    shown: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        if message.get("role") != "tool":
            _add(sent, "user", shown)
            shown = []
        if message.get("role") == "assistant":
            sent.append(_assistant_turn(message))
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
    messages: Iterable[Message], seat: Seat, *, pictures: bool, reasoning: bool, results: Literal["user", "tool"]
) -> list[Wire]:
    """Return a conversation for a model that writes calls as text.

    Args:
        messages: The conversation.
        seat: Has the dialect that writes the calls of an opening conversation.
        pictures: Whether the model sees pictures.
        reasoning: Whether the model's reasoning in earlier turns is sent.
        results: The role of results. Those with pictures are user messages in any case.
    """
    sent: list[Wire] = []
    for message in messages if reasoning else drop_reasoning(list(messages)):
        role = str(message.get("role"))
        seen = pictures and bool(pictures_in(message))
        if role == "assistant":
            sent.append({"role": role, "content": _written(message, seat), **_reasoning(message)})
        elif role == "tool" and results == "tool" and not seen:
            sent.append({"role": role, "content": _text(message, pictures)})
        elif role == "tool":
            text = f"<tool_response>\n{_text(message, pictures)}\n</tool_response>"
            _add(sent, "user", [*_block(text), *_pictures(message)] if seen else text)
        else:
            _add(sent, role, _content(message, pictures))
    return sent


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


def _block(content: str | list[Wire]) -> list[Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


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


def _assistant_turn(message: Mapping[str, Any]) -> Wire:
    turn: Wire = {"role": "assistant", "content": text_of(message), **_reasoning(message)}
    if calls := message.get("tool_calls"):
        turn["tool_calls"] = [_call(entry) for entry in calls]
    return turn


def _reasoning(message: Mapping[str, Any]) -> Wire:
    thought = message.get("reasoning_content")
    return {"reasoning_content": thought} if thought else {}


def _call(entry: Mapping[str, Any]) -> Wire:
    function = entry["function"]
    name = _NOT_IN_NAMES.sub("_", str(function["name"]))[:64] or "unknown"
    return {
        "id": entry["id"],
        "type": "function",
        "function": {"name": name, "arguments": _arguments(function.get("arguments"))},
    }


def _arguments(written: Any) -> str:
    """Return arguments as the text of a JSON object. What the model wrote instead of one is quoted in one."""
    if not isinstance(written, str):
        return json.dumps(written or {})
    try:
        if isinstance(json.loads(written), dict):
            return written
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": written}) if written.strip() else "{}"


def _written(message: Mapping[str, Any], seat: Seat) -> str:
    calls: Sequence[Any] = calls_of(message)
    return seat.dialect.render(text_of(message), calls, seat.tools) if calls else text_of(message)
