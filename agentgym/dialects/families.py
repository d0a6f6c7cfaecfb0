"""How families of models write tool calls: readers for what their chat templates write.

A reader maps a text and the tools to the text before the calls and the calls. It raises `ToolError` with a message for
the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from agentgym.dialects.base import Parsed
from agentgym.dialects.hermes import BEGINNING, Hermes
from agentgym.dialects.text import Unreadable, before_call, begun, first_outside_reasoning
from agentgym.messages import ToolCall
from agentgym.records import strict_json
from agentgym.records.strict_json import JsonProblem, excerpt, skip_space
from agentgym.toolset import Toolset

Reader = Callable[[str, Toolset], Parsed]
_Call = tuple[ToolCall, int]
"""A call, and the position after it."""

_LLAMA = re.compile(
    r"<think>|(?:<\|python_tag\|>\s*)?"
    r'(?=\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"[^"\n]*"(?:\s*,\s*"(?:parameters|arguments)"\s*:|[\s,]*\Z))'
)
_LLAMA_SHAPE = '{"name": ..., "parameters": {...}}'
_SEPARATOR = re.compile(r"\s*;?\s*")

_XML = re.compile(r"<think>|<tool_call>|<function=")
_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=([^\n>]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^\n>]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_FUNCTION_END = re.compile(r"</function>\s*(?:</tool_call>)?\s*")
_XML_SHAPE = "<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>"
_LITERALS = {"True": True, "False": False, "None": None}
_TYPES = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)
_MAX_REFERENCES = 20
"""Deeper schemas are not followed: they may refer to themselves."""

_DEEPSEEK = re.compile(r"<think>|<｜tool▁calls▁begin｜>|<｜tool▁call▁begin｜>")
_DEEPSEEK_CALL = re.compile(
    r"(?:<｜tool▁calls▁begin｜>\s*)?<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>([^\n]+)\n```json\n|([^\n]+?)<｜tool▁sep｜>)"
)
_DEEPSEEK_END = re.compile(r"(?:\s*```)?\s*<｜tool▁call▁end｜>\s*(?:<｜tool▁calls▁end｜>)?\s*")
_DEEPSEEK_SHAPE = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>...<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


def json_in_tags(text: str, tools: Toolset) -> Parsed:
    """Read `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Qwen 2.5 and 3, SmolLM3, Hermes."""
    parsed = Hermes().parse(text, tools)
    if parsed.error is not None:
        raise Unreadable(parsed.error, unclosed=parsed.unclosed)
    return parsed


def xml_in_tags(text: str, tools: Toolset) -> Parsed:
    """Read `<function=NAME><parameter=KEY>VALUE</parameter></function>`: Qwen 3.5, Qwen3-Coder, Nemotron 3."""
    return _read(text, _XML, lambda start: _xml_call(text, start, tools))


def json_with_parameters(text: str, tools: Toolset) -> Parsed:
    """Read `{"name": ..., "parameters": {...}}` at the end of a message: Llama 3. `;` may stand between two of them."""
    return _read(text, _LLAMA, lambda start: _llama_call(text, start))


def deepseek_blocks(text: str, tools: Toolset) -> Parsed:
    """Read blocks between special tokens: DeepSeek V3 and R1 with a name and fenced JSON, V3.1 with both in a line."""
    return _read(text, _DEEPSEEK, lambda start: _deepseek_call(text, start))


FAMILIES: tuple[Reader, ...] = (json_in_tags, xml_in_tags, deepseek_blocks, json_with_parameters)
"""All readers. `TemplateDialect` uses the first that reads what a chat template writes."""

BEGINNINGS: Mapping[Reader, re.Pattern[str]] = {
    json_in_tags: BEGINNING,
    xml_in_tags: re.compile(f"{begun('<tool_call>')}|{begun('<function=')}"),
    deepseek_blocks: re.compile(f"{begun('<｜tool▁calls▁begin｜>')}|{begun('<｜tool▁call▁begin｜>')}"),
    json_with_parameters: re.compile(rf'{begun("<|python_tag|>")}|\{{\s*(?:\Z|")'),
}
"""Where the calls of each begin or, at the end of an unfinished text, may be about to."""


def _read(text: str, marks: re.Pattern[str], read_call: Callable[[int], _Call]) -> Parsed:
    """Read calls that follow each other up to the end."""
    first = first_outside_reasoning(text, marks)
    if first is None:
        return Parsed(text)
    calls, at = [], first.start()
    while at < len(text):
        call, at = read_call(at)
        calls.append(call)
    return Parsed(before_call(text, first.start()), tuple(calls))


def _llama_call(text: str, start: int) -> _Call:
    opening = _LLAMA.match(text, start)
    if opening is None:
        raise Unreadable(f"There is text after the call: {excerpt(text, start)}. End your message after it.")
    try:
        value, end = strict_json.read_value(text, opening.end())
    except JsonProblem as problem:
        raise Unreadable(f"The tool call must be {_LLAMA_SHAPE}, but {problem}", unclosed=problem.cut) from None
    arguments = value.get("parameters", value.get("arguments"))
    if not isinstance(value["name"], str) or not isinstance(arguments, dict):
        raise Unreadable(f"The tool call must be {_LLAMA_SHAPE}.")
    return ToolCall(value["name"], arguments), _after(_SEPARATOR, text, end)


def _xml_call(text: str, start: int, tools: Toolset) -> _Call:
    opening = _FUNCTION.match(text, start)
    if opening is None:
        raise _unexpected(text, start, _XML_SHAPE)
    name, at = opening[1].strip(), opening.end()
    arguments: dict[str, Any] = {}
    while (given := _PARAMETER.match(text, at)) is not None:
        arguments[given[1]] = _typed(given[2], _types_of(tools, name, given[1]))
        at = given.end()
    if (ending := _FUNCTION_END.match(text, at)) is None:
        raise Unreadable(f"The call of {name!r:.100} is never closed. Write {_XML_SHAPE}.", unclosed=True)
    return ToolCall(name, arguments), ending.end()


def _deepseek_call(text: str, start: int) -> _Call:
    opening = _DEEPSEEK_CALL.match(text, start)
    if opening is None:
        raise _unexpected(text, start, _DEEPSEEK_SHAPE)
    name = (opening[1] or opening[2]).strip()
    try:
        arguments, end = strict_json.read_value(text, opening.end())
    except JsonProblem as problem:
        raise Unreadable(
            f"The arguments of {name!r:.100} must be a JSON object, but {problem}", unclosed=problem.cut
        ) from None
    if not isinstance(arguments, dict):
        raise Unreadable(f"The arguments of {name!r:.100} must be a JSON object, not {strict_json.kind_of(arguments)}.")
    if (ending := _DEEPSEEK_END.match(text, end)) is None:
        raise Unreadable(f"The call of {name!r:.100} is never closed. Write {_DEEPSEEK_SHAPE}.", unclosed=True)
    return ToolCall(name, arguments), ending.end()


def _unexpected(text: str, start: int, shape: str) -> Unreadable:
    """Return the error for what is no call: a call that is cut off if it begins like one, else text after a call."""
    if text.startswith("<", start):
        return Unreadable(f"The tool call is not complete: {excerpt(text, start)}. Write {shape}.", unclosed=True)
    return Unreadable(f"There is text after the call: {excerpt(text, start)}. End your message after it.")


def _after(separator: re.Pattern[str], text: str, at: int) -> int:
    found = separator.match(text, at)
    return at if found is None else found.end()


def _types_of(tools: Toolset, name: str, key: str) -> frozenset[str]:
    """Return the JSON types that a parameter takes; none if they are not known."""
    if name not in tools:
        return frozenset()
    parameters = tools.get(name).parameters
    return _types_in(parameters.get("properties", {}).get(key), parameters.get("$defs", {}), 0)


def _types_in(schema: Any, definitions: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        return frozenset()
    if isinstance(reference := schema.get("$ref"), str):
        return _types_in(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    if isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list):
        return frozenset().union(*(_types_in(option, definitions, depth + 1) for option in options))
    own = schema.get("type")
    if own is None and isinstance(values := schema.get("enum"), list):
        return frozenset(map(_type_of, values))
    return frozenset(own if isinstance(own, list) else [] if own is None else [own])


def _type_of(value: Any) -> str:
    """Return the JSON type of a value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def _typed(text: str, types: frozenset[str]) -> Any:
    """Return a value that is written without quotes: JSON, or as Python writes it, where its type may be meant.

    Where a text may be meant and the written value has no other type of the parameter, it is a text.
    """
    if types == {"string"}:
        return text
    written = text.strip()
    value = _LITERALS[written] if written in _LITERALS else _json(written, text)
    kind = _type_of(value)
    if "string" not in types or kind in types or (kind == "integer" and "number" in types):
        return value
    return text


def _json(written: str, otherwise: str) -> Any:
    try:
        value, end = strict_json.read_value(written)
    except JsonProblem:
        return otherwise
    return value if skip_space(written, end) == len(written) else otherwise
