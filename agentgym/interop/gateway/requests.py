"""Reads the requests of chat endpoints: messages, tools and limits, whatever program wrote them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.dialects.text import END_THINK, THINK
from agentgym.errors import ToolError
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.options import check_options, flag, limit_of, stops_of, wants_tools
from agentgym.messages import Message, ToolCall, calls_of, shown_pictures, text_of
from agentgym.records import strict_json

_ROLES = {"developer": "system", "function": "tool"}
_KNOWN = ("system", "user", "assistant", "tool")
_AROUND_REASONING = re.compile(rf"\s*({THINK}|{END_THINK})\s*")
_PNG = "data:image/png;base64,"
_EMPTY = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class ChatRequest:
    """A request for the next message of a conversation."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    """Schemas of the tools, each with a description and parameters."""
    max_new_tokens: int | None
    model: str
    stream: bool
    wants_usage: bool
    """Whether a stream ends with the number of tokens."""
    wants_logprobs: bool = False
    stop: tuple[str, ...] = ()
    """Texts at which the turn ends. They are not part of the message."""
    one_call: bool = False
    """Whether the turn ends after its first call."""
    ignored: tuple[str, ...] = ()
    """Options that the request has and that have no effect."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ChatRequest:
        """Read the body of a request. Raises `Refused` if it cannot be answered."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise Refused("'messages' must be a list of chat messages", param="messages")
        if body.get("n") not in (None, 1):
            raise Refused("only n=1 is supported: a trajectory has one continuation", param="n")
        options = body.get("stream_options")
        return cls(
            messages=[*map(_message, body["messages"])],
            tools=_schemas(body.get("tools")) if wants_tools(body) else [],
            max_new_tokens=limit_of(body, "max_completion_tokens", "max_tokens"),
            model=str(body.get("model") or ""),
            stream=flag(body, "stream"),
            wants_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
            wants_logprobs=flag(body, "logprobs"),
            stop=stops_of(body),
            one_call=not flag(body, "parallel_tool_calls", default=True),
            ignored=check_options(body),
        )


Key = tuple[Any, ...]
"""What makes two messages the same."""


def key_of(message: Mapping[str, Any]) -> Key:
    """Return what makes a message the same although a program has parsed and written it again.

    Ids of calls and white space around texts and reasoning do not matter.
    """
    try:
        calls = tuple((call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls_of(message))
    except ToolError:
        calls = (str(message.get("tool_calls")),)
    text = _AROUND_REASONING.sub(r"\1", text_of(message)).strip()
    return message.get("role"), text, calls, tuple(shown_pictures([message]))


def _message(given: Any) -> Message:
    if not isinstance(given, Mapping):
        raise Refused("a message must be an object with a role and a content")
    role = _ROLES.get(str(given.get("role")), given.get("role"))
    if role not in _KNOWN:
        raise Refused(f"a message has the role {role!r}; there are: {', '.join(_KNOWN)}")
    message: dict[str, Any] = {"role": role, "content": _content(given.get("content"))}
    if role == "assistant":
        message["content"] = _with_reasoning(given, message["content"])
        if calls := given.get("tool_calls"):
            message["tool_calls"] = _calls(calls)
    if role == "tool":
        message["tool_call_id"] = str(given.get("tool_call_id") or "")
    return message  # type: ignore[return-value]


def _with_reasoning(given: Mapping[str, Any], content: Any) -> Any:
    """Return what the model said with its reasoning, which programs such as LiteLLM put into a field of its own."""
    thought = given.get("reasoning_content") or given.get("reasoning")
    if not isinstance(thought, str) or not isinstance(content, str) or content.lstrip().startswith(THINK):
        return content
    return f"{THINK}{thought}{END_THINK}{content}"


def _content(given: Any) -> Any:
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, Sequence):
        raise Refused("the content of a message must be text or a list of parts")
    parts = [*map(_part, given)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("text", "refusal"):
        return {"type": "text", "text": str(part.get(kind) or "")}
    if kind == "image_url":
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        if isinstance(url, str) and url.startswith(_PNG):
            return {"type": "image", "base64": _checked_base64(url.removeprefix(_PNG))}
    raise Refused(f"a part of a content is {kind!r}; there are text, and image_url with a PNG as a data URL")


def _checked_base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except ValueError as error:
        raise Refused(f"a picture is not base64: {error}") from error
    return data


def _calls(given: Any) -> list[dict[str, Any]]:
    """Return the calls of an earlier message with their arguments as objects, as chat templates want them."""
    try:
        return [call.to_dict() for call in calls_of({"tool_calls": given})]
    except ToolError as error:
        raise Refused(f"an earlier call cannot be read: {error}") from error


def _schemas(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list | None):
        raise Refused("'tools' must be a list", param="tools")
    return [*map(_schema, given or ())]


def _schema(tool: Any) -> dict[str, Any]:
    """Return a tool's schema with all that dialects read."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        raise Refused("a tool must be {'type': 'function', 'function': {'name': ..., 'parameters': {...}}}")
    parameters = function.get("parameters") or _EMPTY
    if not isinstance(parameters, Mapping):
        raise Refused(f"the parameters of tool {name!r} must be a JSON schema")
    description = function.get("description") or name
    try:
        strict_json.check_value([str(description), parameters])
    except strict_json.JsonProblem as error:
        raise Refused(f"tool {name!r:.100} cannot be shown to a model: {error}", param="tools") from error
    missing = {key: value for key, value in _EMPTY.items() if key not in parameters}  # the order of keys is seen too
    return {
        "type": "function",
        "function": {"name": name, "description": str(description), "parameters": {**parameters, **missing}},
    }


def reply_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return what the model said as a message of a chat endpoint."""
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [_written(call) for call in calls]
    return message


def _written(call: ToolCall) -> dict[str, Any]:
    arguments = strict_json.write(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
