"""The Hermes dialect, which Qwen models are trained on: JSON in `<tool_call>` tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agentgym.base import strict_json
from agentgym.base.strict_json import JsonProblem, excerpt, json_kind, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.text import (
    ParseError,
    TextDialect,
    before_call,
    first_outside_reasoning,
    prefix_pattern,
    set_apart,
)
from agentgym.core.messages import ToolCall
from agentgym.core.toolset import Toolset

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_SHAPE = '{"name": ..., "arguments": {...}}'
_MARKS = re.compile(r"<think>|</?tool_call>")
BEGINNING = re.compile(f"{prefix_pattern(_OPEN)}|{prefix_pattern(_CLOSE)}")
"""The beginning of a call or, at the end of an unfinished text, a prefix of it."""

_IN_JSON = re.compile(r"<(?=/?(?:tool_call|think)>)")

_INSTRUCTIONS = """# Tools

{how_many}

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{schemas}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>
End your message after the last </tool_call>."""

_ONE = "You may call one function at a time to assist with the user query."
_SEVERAL = "You may call one or more functions to assist with the user query."


class Hermes(TextDialect):
    """JSON in `<tool_call>` tags, after free text; `<think>...</think>` is text, whatever it contains.

    `render` escapes the tags inside arguments, so every argument can be expressed. It raises `ValueError` for text that
    would be read as a call, and for values that JSON cannot represent. A list of calls in one pair of tags is accepted
    too.
    """

    name = "hermes"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """List the schemas in `<tools>` and show the syntax, in the wording of Qwen's chat templates.

        If a second call would be refused, "one or more functions" becomes "one function at a time".
        """
        schemas = "\n".join(strict_json.write(schema) for schema in tools.schemas)
        return _INSTRUCTIONS.format(how_many=_ONE if max_calls == 1 else _SEVERAL, schemas=schemas)

    def _read(self, text: str, tools: Toolset) -> Parsed:
        first = first_outside_reasoning(text, _MARKS)
        if first is None:
            return Parsed(text)
        if first[0] == _CLOSE:
            raise ParseError(f"{_CLOSE} stands without {_OPEN}. Write {_OPEN}{_SHAPE}{_CLOSE}.")
        calls, at = [], first.start()
        while at < len(text):
            if not text.startswith(_OPEN, at):
                raise ParseError(f"There is text after the call: {excerpt(text, at)}. End your message after it.")
            block_calls, at = _read_calls(text, at + len(_OPEN))
            calls += block_calls
            at = skip_space(text, at)
        return Parsed(before_call(text, first.start()), tuple(calls))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return BEGINNING

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        written = "\n".join(f"{_OPEN}\n{_write_call(call)}\n{_CLOSE}" for call in calls)
        return set_apart(text, written) if calls else text


def _write_call(call: ToolCall) -> str:
    return _IN_JSON.sub(r"\\u003c", strict_json.write({"name": call.name, "arguments": dict(call.arguments)}))


def _read_calls(text: str, start: int) -> tuple[list[ToolCall], int]:
    """Parse what follows the opening tag that ends at `start`; return its calls and the end of its closing tag.

    The tags hold a call, or a list of calls, which SmolLM2 writes.
    """
    closes = text.find(_CLOSE, start)
    if closes < 0:
        raise ParseError(f"{_OPEN} is never closed. Write {_OPEN}{_SHAPE}{_CLOSE} in full.", unclosed=True)
    try:
        value, end = strict_json.read_value(text, start)
    except JsonProblem as problem:
        if text.find(_OPEN, start, closes) >= 0:
            raise ParseError(f"A {_OPEN} starts inside another. Close each with {_CLOSE} first.") from None
        if not text[start:closes].strip():
            raise ParseError(f"The tool call is empty. Write {_OPEN}{_SHAPE}{_CLOSE}.") from None
        raise ParseError(f"The tool call must be {_SHAPE}, but {problem}") from None
    end = skip_space(text, end)
    if not text.startswith(_CLOSE, end):
        raise ParseError(f"Only one JSON object may stand in a tool call; after it comes {excerpt(text, end)}.")
    is_list = isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value)
    return [*map(_call_from, value if is_list else [value])], end + len(_CLOSE)


def _call_from(value: Any) -> ToolCall:
    if not isinstance(value, dict):
        raise ParseError(f"The tool call must be a JSON object {_SHAPE}, not {json_kind(value)}.")
    if not isinstance(value.get("name"), str):
        raise ParseError(f'The tool call has no "name", or it is no string. Write {_SHAPE}.')
    if "arguments" not in value:
        keys = ", ".join(repr(key[:40]) for key in list(value)[:8])
        raise ParseError(f'The call of {value["name"]!r:.100} has no "arguments", only {keys}. Write {_SHAPE}.')
    arguments = value["arguments"]
    if isinstance(arguments, str):
        try:
            arguments = strict_json.read_object(arguments)
        except JsonProblem as problem:
            raise ParseError(f'"arguments" is a string, and read as JSON {problem} Write {_SHAPE}.') from None
    if not isinstance(arguments, dict):
        raise ParseError(f'"arguments" must be an object, not {json_kind(arguments)}. Write {_SHAPE}.')
    return ToolCall(value["name"], arguments)
