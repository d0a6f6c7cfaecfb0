"""Chat messages in the de-facto OpenAI/transformers format, which environments return and policies read."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from agentgym.base import strict_json
from agentgym.base.errors import Mistake, ToolError

Role = Literal["system", "user", "assistant", "tool"]


class Message(TypedDict, total=False):
    """One chat message. `role` and `content` are always present, the other keys where they apply."""

    role: Role
    content: str | list[dict[str, Any]]
    """Text, or content blocks (`{"type": "text", ...}`, `{"type": "image", ...}`)."""
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    name: str


@dataclass(frozen=True)
class ToolCall:
    """A request to run a tool: its name and its unvalidated arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def to_dict(self, *, arguments_as_text: bool = False) -> dict[str, Any]:
        """Return the call in message format. OpenAI expects the arguments as JSON text, chat templates as an object."""
        arguments = json.dumps(dict(self.arguments)) if arguments_as_text else dict(self.arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True)
class Pictured:
    """Text with pictures, as a tool may return."""

    text: str
    pictures: tuple[bytes, ...]
    """PNG files."""


def system(content: str) -> Message:
    """Return a system message."""
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant(content: str, calls: list[ToolCall] | None = None) -> Message:
    """Return an assistant message with its tool calls, if any."""
    message: Message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [call.to_dict() for call in calls]
    return message


def tool_result(call: ToolCall, content: str) -> Message:
    """Return the result of `call` as a tool message."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}


def with_pictures(message: Message, pictures: Sequence[bytes]) -> Message:
    """Return `message` with its text and PNG files as content blocks, the format of vision models' chat templates."""
    if not pictures:
        return message
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message.get("content")}]
    blocks += [{"type": "image", "base64": base64.b64encode(picture).decode()} for picture in pictures]
    return {**message, "content": blocks}


def pictures_in(message: Mapping[str, Any]) -> int:
    """Return the number of pictures in a message."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return 0
    return sum(map(_is_picture, content))


def _is_picture(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "image"


def without_pictures(message: Message) -> Message:
    """Return `message` as text, with a note about the pictures that a text-only policy cannot see."""
    if not (pictures := pictures_in(message)):
        return message
    what = "A picture was" if pictures == 1 else f"{pictures} pictures were"
    return {**message, "content": f"{text_of(message)}\n({what} shown here, which you cannot see.)".lstrip("\n")}


def as_template_content(content: Any) -> Any:
    """Return content in the form that vision models' chat templates expect: a picture is `{"type": "image"}`."""
    if not isinstance(content, list | tuple):
        return content
    return [{"type": "image"} if _is_picture(block) else block for block in content]


def shown_pictures(messages: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Return the PNG files in messages, in order."""
    return [
        base64.b64decode(block["base64"])
        for message in messages
        if isinstance(content := message.get("content"), list | tuple)
        for block in content
        if _is_picture(block) and block.get("base64")
    ]


def deep_copy(value: Any) -> Any:
    """Return a deep copy of messages, or of part of a message."""
    if isinstance(value, dict):
        return {key: deep_copy(part) for key, part in value.items()}
    return [deep_copy(part) for part in value] if isinstance(value, list) else value


def numbered_call_id(number: int) -> str:
    """Return an id for a call without one: nine letters and digits, since Mistral's servers refuse all others."""
    return f"call{number:05}"


def with_call_ids(message: Mapping[str, Any], used_ids: set[str]) -> Mapping[str, Any]:
    """Return an assistant message whose calls have unique ids, as chat endpoints require.

    Args:
        message: The message. Missing or repeated ids are replaced.
        used_ids: The ids used in the conversation so far; those of this message are added.
    """
    entries = message.get("tool_calls")
    if not entries or not isinstance(entries, list | tuple):
        return message
    return {**message, "tool_calls": [_with_id(entry, used_ids) for entry in entries]}


def _with_id(entry: Any, used_ids: set[str]) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    own = entry.get("id")
    number = len(used_ids) + 1
    while not own or not isinstance(own, str) or own in used_ids:
        own, number = numbered_call_id(number), number + 1
    used_ids.add(own)
    return {"type": "function", **entry, "id": own}


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the tool calls of an assistant message. Arguments may be an object or JSON text.

    Raises `ToolError` with an explanation for an unreadable call.
    """
    entries = message.get("tool_calls") or ()
    if not isinstance(entries, list | tuple):
        raise _unreadable(f"tool_calls must be a list, not {type(entries).__name__}.")
    return tuple(_read_call(entry) for entry in entries)


def _read_call(entry: Any) -> ToolCall:
    function = entry.get("function") if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _unreadable('A tool call must look like {"function": {"name": ..., "arguments": {...}}}.')
    name, arguments = function["name"], function.get("arguments")
    try:
        if isinstance(arguments, str):
            arguments = strict_json.read_object(arguments) if arguments.strip() else {}
        strict_json.check_value(arguments)
    except strict_json.JsonProblem as problem:
        raise _unreadable(f"The arguments of {name[:100]!r} cannot be read: {problem}") from None
    if not isinstance(arguments, Mapping | None):
        raise _unreadable(f"The arguments of {name[:100]!r} must be an object, not {strict_json.json_kind(arguments)}.")
    return ToolCall(name, arguments or {}, str(entry.get("id") or ""))


def _unreadable(problem: str) -> ToolError:
    return ToolError(problem, mistake=Mistake.UNREADABLE)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message: its text blocks joined, other blocks dropped."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    blocks = [block for block in content if isinstance(block, Mapping) and block.get("type") == "text"]
    return "".join(str(block.get("text") or "") for block in blocks)
