"""Reads requests of the Responses API as requests of a chat endpoint: one conversation has the same tokens in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.items import messages_of
from agentgym.interop.gateway.options import LABELS, OF_MODELS, OF_SAMPLING, flag, limit_of
from agentgym.interop.gateway.stored import StoredResponses

_KEPT = (
    *OF_SAMPLING,
    *OF_MODELS,
    *("model", "stream", "tool_choice", "parallel_tool_calls", "top_logprobs"),
)
"""Options that chat requests have under the same name."""

_READ = LABELS | {
    *("input", "instructions", "tools", "max_output_tokens", "include", "previous_response_id"),
    *("stream_options", "max_tool_calls"),  # the one makes a stream longer, the other is about tools of the provider
}

LOGPROBS = "message.output_text.logprobs"

_ONLY: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "background": (lambda given: given is False, "the call is answered while the client waits"),
    "truncation": (lambda given: given == "disabled", "a conversation that is too long is refused, never shortened"),
}


def chat_body(body: Mapping[str, Any], stored: StoredResponses) -> dict[str, Any]:
    """Return the body of the chat request that asks for the same.

    Args:
        body: The request.
        stored: What it may refer to.

    Raises:
        Refused: It asks for what this gateway does not have.
    """
    _check(body)
    instructions = body.get("instructions")
    if not isinstance(instructions, str | None):
        raise Refused("'instructions' must be text", param="instructions")
    told = [{"role": "system", "content": instructions}] if instructions else []
    chat = {name: body[name] for name in _KEPT if body.get(name) is not None}
    earlier = stored.before(body.get("previous_response_id"))
    said = [*earlier, *messages_of(body.get("input"), stored.items)]
    if not said:
        raise Refused("'input' has no items", param="input")
    chat["messages"] = [*told, *said]
    chat["tools"] = _tools(body.get("tools"))
    chat["max_tokens"] = limit_of(body, "max_output_tokens")
    chat["logprobs"] = LOGPROBS in (body.get("include") or ())
    return chat


def is_stored(body: Mapping[str, Any]) -> bool:
    """Whether later calls may refer to the response."""
    return flag(body, "store", default=True)


def _check(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if value is None or name in _READ or name in _KEPT:
            continue
        if name == "text":
            _check_text(value)
        elif name not in _ONLY:
            raise Refused(f"{name!r:.100} is not supported by this gateway; leave it out", param=name[:100])
        elif not (only := _ONLY[name])[0](value):
            raise Refused(f"{name!r} cannot be {value!r:.100}: {only[1]}", param=name)
    include = body.get("include")
    if not isinstance(include, list | None) or not all(isinstance(one, str) for one in include or ()):
        raise Refused("'include' must be a list of texts", param="include")


def _check_text(given: Any) -> None:
    form = given.get("format") if isinstance(given, Mapping) else given
    if form is not None and form != {"type": "text"}:
        kind = form.get("type") if isinstance(form, Mapping) else form
        raise Refused(
            f"'text.format' cannot be {kind!r:.100}: the model's text is sampled freely, and cannot be held to a form",
            param="text.format",
        )


def _tools(given: Any) -> list[dict[str, Any]]:
    """Return tools as chat requests have them."""
    if not isinstance(given, list | None):
        raise Refused("'tools' must be a list", param="tools")
    return [*map(_tool, given or ())]


def _tool(tool: Any) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, Mapping) else tool
    if kind != "function":
        raise Refused(f"a tool is {kind!r:.100}; the agent itself runs the tools, so all are functions", param="tools")
    names = ("name", "description", "parameters")
    return {"type": "function", "function": {name: tool[name] for name in names if name in tool}}
