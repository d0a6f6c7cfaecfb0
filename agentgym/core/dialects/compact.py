"""The compact dialect: as few tokens as possible, for small models trained from scratch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from agentgym.base import strict_json
from agentgym.base.strict_json import JsonProblem, excerpt, json_kind, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.text import (
    ParseError,
    TextDialect,
    allowed,
    before_call,
    first_outside_reasoning,
    set_apart,
    text_argument,
    text_parameters,
)
from agentgym.core.messages import ToolCall
from agentgym.core.toolset import Tool, Toolset, schema_kind

_CALL = re.compile(r"^@([\w.-]++)(\s|\Z)?", re.MULTILINE)
_BEGINNING = re.compile(rf"^@\Z|{_CALL.pattern}", re.MULTILINE)
_END_THINK = re.compile(r"<(\\*+/think>)")
_ESCAPED_END_THINK = re.compile(r"<\\(\\*+/think>)")
_MARKS = re.compile(rf"<think>|{_CALL.pattern}", re.MULTILINE)


class Compact(TextDialect):
    r"""`@search query` where a tool takes one string, `@add {"a":1,"b":2}` elsewhere, `@list` without arguments.

    A call starts at the beginning of a line, after any text. A string extends verbatim to the next line that begins
    with `@` and the name of a tool, or to the end; `render` puts a backslash before such an `@` inside a string, and
    `parse` removes it; likewise before the slash of `</think>`, which would otherwise end reasoning. Every argument can
    therefore be expressed; `render` raises `ValueError` for text with a line that begins like a call, and for a call
    without its string. `parse` cannot detect that a string was truncated.
    """

    name = "compact"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """List the calls on one line."""
        return "Tools: " + " | ".join(map(_usage, tools)) + allowed(max_calls, "calls")

    def _read(self, text: str, tools: Toolset) -> Parsed:
        first = first_outside_reasoning(text, _MARKS)
        if first is None:
            return Parsed(text)
        names, strings = _names(tools.names), text_parameters(tools)
        calls: list[ToolCall] = []
        opening: re.Match[str] | None = first
        while opening is not None:
            name = opening[1]
            if opening[2] is None:
                raise ParseError(f"After '@{name[:60]}' comes {excerpt(text, opening.end())}. Write a space there.")
            following = names.opening.search(text, opening.end(1))
            end = len(text) if following is None else following.start() - 1
            rest = text[opening.end(1) : end]
            calls.append(ToolCall(name, _arguments(name, rest, strings, names, tools)))
            opening = None if following is None else _CALL.match(text, following.start())
        return Parsed(before_call(text, first.start()), tuple(calls))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return _BEGINNING

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        names, strings = _names(tools.names), text_parameters(tools)
        written = "\n".join(_write_call(call, strings, names) for call in calls)
        return set_apart(text, written) if calls else text


class _Names:
    """Patterns for the names of a toolset at the beginning of a line."""

    def __init__(self, names: tuple[str, ...]):
        either = "|".join(map(re.escape, names)) or "(?!)"
        self.opening = re.compile(rf"^@(?:{either})(?=\s|\Z)", re.MULTILINE)
        self.escapable = re.compile(rf"\n(\\*+@(?:{either})(?=\s|\Z))")
        self.escaped = re.compile(rf"\n\\(\\*+@(?:{either})(?=\s|\Z))")


@lru_cache(maxsize=256)
def _names(names: tuple[str, ...]) -> _Names:
    return _Names(names)


def _arguments(name: str, rest: str, strings: dict[str, str], names: _Names, tools: Toolset) -> dict[str, Any]:
    """Parse the text after a name; its first character separates it from the name."""
    if name in strings:
        return {strings[name]: _ESCAPED_END_THINK.sub(r"<\1", names.escaped.sub(r"\n\1", rest))[1:]} if rest else {}
    if name not in tools and not rest.lstrip().startswith("{"):
        return {}
    return _read_object(name, rest, tools)


def _read_object(name: str, rest: str, tools: Toolset) -> dict[str, Any]:
    if not rest.strip():
        return {}
    usage = _usage(tools.get(name)) if name in tools else f"@{name[:60]} {{...}}"
    try:
        value, end = strict_json.read_value(rest)
    except JsonProblem as problem:
        raise ParseError(f"Write {usage}, but {problem}", unclosed=problem.cut) from None
    if not isinstance(value, dict):
        raise ParseError(f"Write {usage}: the arguments must be a JSON object, not {json_kind(value)}.")
    if (end := skip_space(rest, end)) < len(rest):
        raise ParseError(f"There is text after the call: {excerpt(rest, end)}. End your message after it.")
    return value


def _write_call(call: ToolCall, strings: dict[str, str], names: _Names) -> str:
    if call.name in strings:
        written = names.escapable.sub(r"\n\\\1", text_argument(call, strings[call.name]))
        return f"@{call.name} " + _END_THINK.sub(r"<\\\1", written)
    if not call.arguments:
        return f"@{call.name}"
    written = strict_json.write(dict(call.arguments), compact=True)
    return f"@{call.name} " + written.replace("</think>", r"\u003c/think>")


def _usage(tool: Tool) -> str:
    properties = tool.parameters.get("properties", {})
    if strings := text_parameters(Toolset([tool])):
        return f"@{tool.name} {strings[tool.name]}"
    if not properties:
        return f"@{tool.name}"
    required = tool.parameters.get("required", ())
    parts = (f'"{name}"{"" if name in required else "?"}:{schema_kind(schema)}' for name, schema in properties.items())
    return f"@{tool.name} {{{','.join(parts)}}}"
