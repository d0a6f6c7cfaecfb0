"""Parses chat completion requests of any client: messages, tools, options and limits.

Each option takes effect, is ignored, or is refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.base import strict_json
from agentgym.base.errors import AgentGymError, ToolError, UsageError
from agentgym.core.dialects.text import END_THINK, THINK
from agentgym.core.foreign import describe
from agentgym.core.messages import Message, calls_of, shown_pictures, text_of


class RequestRefused(AgentGymError):
    """A request that cannot be answered.

    Args:
        message: The reason.
        status: The HTTP status.
        code: OpenAI's error code.
        param: The field of the request that is at fault; `None` if there is no such field.
    """

    def __init__(
        self, message: str, status: int = 400, code: str = "invalid_request_error", *, param: str | None = None
    ):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class ChatError:
    """An error in the format of OpenAI's endpoints."""

    message: str
    status: int
    code: str
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The value of `error` in a response."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": self.message, "type": kind, "code": self.code, "param": self.param}


def chat_error(error: Exception) -> ChatError:
    """Return an exception as agents see it."""
    if isinstance(error, RequestRefused):
        return ChatError(str(error), error.status, error.code, error.param)
    if isinstance(error, UsageError):
        return ChatError(str(error), 422, "usage")
    if isinstance(error, AgentGymError):
        return ChatError(str(error), 502, "infrastructure")
    return ChatError(describe(error), 500, "server_error")


_ROLE_ALIASES = {"developer": "system", "function": "tool"}
_ROLES = ("system", "user", "assistant", "tool")
_AROUND_REASONING = re.compile(rf"\s*({THINK}|{END_THINK})\s*")
_PNG = "data:image/png;base64,"
_EMPTY_SCHEMA = {"type": "object", "properties": {}}
_MAX_STOPS = 4

_OF_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty")
)
"""Ignored: the log-probabilities must be those of the policy's own settings."""

_OF_MODELS = frozenset(("reasoning", "reasoning_effort", "verbosity", "prediction"))
"""Ignored: options for the models of one provider."""

_LABELS = frozenset(
    (
        *("metadata", "store", "user", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    )
)
"""Ignored: they describe the request and do not affect the reply."""

_READ = frozenset(
    (
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "n", "max_tokens"),
        *("max_completion_tokens", "stream", "stream_options", "stop", "logprobs"),
    )
)
"""Options that `ChatRequest.of` reads."""

_FREE_FORM = "the model samples text freely and cannot be constrained to a format"
_SOUND = "the model writes text"
_RESTRICTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "response_format": (lambda value: value == {"type": "text"}, _FREE_FORM),
    "logit_bias": (lambda value: not value, "the samples would not be the policy's own"),
    "top_logprobs": (lambda value: value == 0, "only the log-probabilities of the sampled tokens are known"),
    "modalities": (lambda value: value == ["text"], _SOUND),
    "functions": (lambda value: not value, "use 'tools' instead"),
    "function_call": (lambda value: value in ("auto", "none"), "use 'tools' and 'tool_choice' instead"),
}
"""Options with restricted values: the check of a value, and the reason for a refusal."""


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
    """Whether a stream ends with the token counts."""
    wants_logprobs: bool = False
    stop: tuple[str, ...] = ()
    """Texts that end the turn. They are not part of the message."""
    one_call: bool = False
    """Whether the turn ends after its first call."""
    ignored: tuple[str, ...] = ()
    """The request's options that have no effect."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ChatRequest:
        """Parse the body of a request. Raises `RequestRefused` if it cannot be answered."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RequestRefused("'messages' must be a list of chat messages", param="messages")
        if body.get("n") not in (None, 1):
            raise RequestRefused("only n=1 is supported: a trajectory has one continuation", param="n")
        options = body.get("stream_options")
        return cls(
            messages=[*map(_message, body["messages"])],
            tools=_schemas(body.get("tools")) if _wants_tools(body) else [],
            max_new_tokens=_limit(body, "max_completion_tokens", "max_tokens"),
            model=str(body.get("model") or ""),
            stream=_flag(body, "stream"),
            wants_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
            wants_logprobs=_flag(body, "logprobs"),
            stop=_stops(body),
            one_call=not _flag(body, "parallel_tool_calls", default=True),
            ignored=_ignored(body),
        )


Key = tuple[Any, ...]
"""Equal for messages with the same content."""


def key_of(message: Mapping[str, Any]) -> Key:
    """Return the key of a message, which survives a client's parsing and re-serialising of the message.

    Call ids and white space around text and reasoning do not matter.
    """
    try:
        calls = tuple((call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls_of(message))
    except ToolError:
        calls = (str(message.get("tool_calls")),)
    text = _AROUND_REASONING.sub(r"\1", text_of(message)).strip()
    return message.get("role"), text, calls, tuple(shown_pictures([message]))


def _message(entry: Any) -> Message:
    if not isinstance(entry, Mapping):
        raise RequestRefused("a message must be an object with a role and a content")
    role = _ROLE_ALIASES.get(str(entry.get("role")), entry.get("role"))
    if role not in _ROLES:
        raise RequestRefused(f"a message has the role {role!r}; it must be one of: {', '.join(_ROLES)}")
    message: dict[str, Any] = {"role": role, "content": _content(entry.get("content"))}
    if role == "assistant":
        message["content"] = _with_reasoning(entry, message["content"])
        if calls := entry.get("tool_calls"):
            message["tool_calls"] = _calls(calls)
    if role == "tool":
        message["tool_call_id"] = str(entry.get("tool_call_id") or "")
    return message  # type: ignore[return-value]


def _with_reasoning(entry: Mapping[str, Any], content: Any) -> Any:
    """Return a content with the reasoning, which clients such as LiteLLM put into a separate field."""
    reasoning = entry.get("reasoning_content") or entry.get("reasoning")
    if not isinstance(reasoning, str) or not isinstance(content, str) or content.lstrip().startswith(THINK):
        return content
    return f"{THINK}{reasoning}{END_THINK}{content}"


def _content(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise RequestRefused("the content of a message must be text or a list of parts")
    parts = [*map(_part, content)]
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
    raise RequestRefused(f"a content part is {kind!r}; it must be text, or image_url with a PNG as a data URL")


def _checked_base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except ValueError as error:
        raise RequestRefused(f"a picture is not base64: {error}") from error
    return data


def _calls(entries: Any) -> list[dict[str, Any]]:
    """Return the calls of an earlier message with their arguments as objects, as chat templates expect."""
    try:
        return [call.to_dict() for call in calls_of({"tool_calls": entries})]
    except ToolError as error:
        raise RequestRefused(f"an earlier call cannot be read: {error}") from error


def _schemas(tools: Any) -> list[dict[str, Any]]:
    if not isinstance(tools, list | None):
        raise RequestRefused("'tools' must be a list", param="tools")
    return [*map(_schema, tools or ())]


def _schema(tool: Any) -> dict[str, Any]:
    """Return a tool's schema with all fields that dialects read."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        raise RequestRefused("a tool must be {'type': 'function', 'function': {'name': ..., 'parameters': {...}}}")
    parameters = function.get("parameters") or _EMPTY_SCHEMA
    if not isinstance(parameters, Mapping):
        raise RequestRefused(f"the parameters of tool {name!r} must be a JSON schema")
    description = function.get("description") or name
    try:
        strict_json.check_value([str(description), parameters])
    except strict_json.JsonProblem as error:
        raise RequestRefused(f"tool {name!r:.100} cannot be shown to a model: {error}", param="tools") from error
    missing = {key: value for key, value in _EMPTY_SCHEMA.items() if key not in parameters}  # the model sees the order
    return {
        "type": "function",
        "function": {"name": name, "description": str(description), "parameters": {**parameters, **missing}},
    }


def _ignored(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ignored options of a request, in order. Raises `RequestRefused` for options that are not supported."""
    options = {name: value for name, value in body.items() if value is not None}
    for name, value in options.items():
        if name in _RESTRICTED:
            is_allowed, reason = _RESTRICTED[name]
            if not is_allowed(value):
                raise RequestRefused(f"{name!r} cannot be {value!r:.100}: {reason}", param=name)
        elif name not in _OF_SAMPLING | _OF_MODELS | _LABELS | _READ:
            raise RequestRefused(f"this gateway does not support {name!r:.100}; leave it out", param=name[:100])
    return tuple(name for name in options if name in _OF_SAMPLING | _OF_MODELS)


def _flag(body: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """Return a boolean option."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestRefused(f"{name!r} must be true or false, not {value!r:.100}", param=name)
    return value


def _limit(body: Mapping[str, Any], *names: str) -> int | None:
    """Return the token limit in the first of these options that the request has."""
    for name in names:
        if (value := body.get(name)) is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise RequestRefused(f"{name!r} must be a whole number from 1, not {value!r:.100}", param=name)
            return value
    return None


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts that end the model's turn."""
    value = body.get("stop") or ()
    stops = (value,) if isinstance(value, str) else value
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) and stop for stop in stops):
        raise RequestRefused("'stop' must be text or a list of texts", param="stop")
    if len(stops) > _MAX_STOPS:
        raise RequestRefused(f"'stop' may have {_MAX_STOPS} texts at most, not {len(stops)}", param="stop")
    return tuple(stops)


def _wants_tools(body: Mapping[str, Any]) -> bool:
    """Whether the model may call tools."""
    choice = body.get("tool_choice")
    if choice in (None, "auto", "none"):
        return choice != "none"
    raise RequestRefused(
        f"'tool_choice' cannot be {choice!r:.100}: the model decides whether to call a tool; use 'auto' or 'none'",
        param="tool_choice",
    )
