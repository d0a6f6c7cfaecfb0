"""Converts typed input to actions, and actions back to typed input."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from agentgym.dialects.base import Dialect
from agentgym.engine.spaces import Action
from agentgym.errors import ToolError
from agentgym.messages import ToolCall, assistant
from agentgym.terminal.printing import plain
from agentgym.toolset import Tool, Toolset


def read_action(line: str, tools: Toolset, dialect: Dialect, *, talks: bool = False) -> Action:
    """Return the action for a typed line: a tool and its arguments, a call in the dialect, or plain text.

    Args:
        line: What was typed.
        tools: The tools that can be called.
        dialect: How calls can be written besides.
        talks: Whether text that calls no tool is an action, too.

    Raises:
        ToolError: The line cannot be read; it costs no turn.
    """
    name, *rest = line.split(maxsplit=1)
    if name in tools:
        tool = tools.get(name)
        call = ToolCall(name, read_arguments(tool, "".join(rest)))
        tool.check(call.arguments)
        return assistant("", [call])
    if talks or not len(tools):
        return line
    parsed = dialect.parse(line, tools)
    if parsed.error is not None:
        raise ToolError(parsed.error)
    for call in parsed.calls or (ToolCall(name),):
        tools.check(call)
    return line


def read_arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Return the arguments typed after a tool's name. Raises `ToolError` with the usage."""
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    given = _json_object(text)
    if given is not None and set(given) <= set(properties):
        return given
    if not text:
        return {}
    taker = required[0] if len(required) == 1 else next(iter(properties)) if len(properties) == 1 else None
    pairs = _pairs(text, properties)
    if pairs is not None and (taker is None or taker in pairs):
        return {name: _value(value, properties[name]) for name, value in pairs.items()}
    if taker is not None:
        return {taker: _value(text, properties[taker])}
    example = " ".join(f"{name}=…" for name in properties)
    expected = f"Write {tool.name} {example}, or a JSON object." if properties else f"{tool.name} takes no arguments."
    raise ToolError(f"{expected} Usage: {tool.usage}")


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _pairs(text: str, properties: Mapping[str, Any]) -> dict[str, str] | None:
    """Return `key=value` pairs, or `None` if the text is not made of them."""
    try:
        split = [part.partition("=") for part in shlex.split(text)]
    except ValueError:
        return None
    if not all(sign and key in properties for key, sign, _ in split):
        return None
    return {key: value for key, _, value in split}


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    """Return typed text as an argument: strings unchanged, other types parsed as JSON if possible."""
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def typed_usage(tool: Tool) -> str:
    """Return the usage of a tool in typed form."""
    properties = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", ()))
    if len(properties) == 1:
        (name,) = properties
        return f"{tool.name} {name.upper() if name in required else f'[{name.upper()}]'}"
    words = [f"{name}=…" if name in required else f"[{name}=…]" for name in properties]
    return " ".join([tool.name, *words])


def as_typed(move: ToolCall | str, tools: Toolset) -> str:
    """Return a move of the solution as a person would type it."""
    if isinstance(move, str):
        return plain(move)
    values = list(move.arguments.values())
    if len(values) == 1 and len(tools.get(move.name).parameters.get("required", ())) == 1:
        return plain(f"{move.name} {values[0] if isinstance(values[0], str) else json.dumps(values[0])}")
    return plain(f"{move.name} {json.dumps(dict(move.arguments), ensure_ascii=False)}" if values else move.name)
