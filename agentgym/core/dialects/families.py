"""Readers for the tool calls of model families, as their chat templates write them.

A reader maps a text and the tools to the text before the calls and the calls. It raises `ToolError` with a message for
the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from agentgym.base import strict_json
from agentgym.base.strict_json import JsonProblem, excerpt, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.hermes import BEGINNING, Hermes
from agentgym.core.dialects.text import ParseError, before_call, first_outside_reasoning, prefix_pattern
from agentgym.core.messages import ToolCall
from agentgym.core.toolset import Toolset

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
"""Maximum depth of schemas to follow: they may refer to themselves."""

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
        raise ParseError(parsed.error, unclosed=parsed.unclosed)
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
"""All readers. `TemplateDialect` uses the first that can read a chat template's calls."""

BEGINNINGS: Mapping[Reader, re.Pattern[str]] = {
    json_in_tags: BEGINNING,
    xml_in_tags: re.compile(f"{prefix_pattern('<tool_call>')}|{prefix_pattern('<function=')}"),
    deepseek_blocks: re.compile(
        f"{prefix_pattern('<｜tool▁calls▁begin｜>')}|{prefix_pattern('<｜tool▁call▁begin｜>')}"
    ),
    json_with_parameters: re.compile(rf'{prefix_pattern("<|python_tag|>")}|\{{\s*(?:\Z|")'),
}
"""For each reader, the beginning of a call or, at the end of an unfinished text, a prefix of it."""


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
        raise ParseError(f"There is text after the call: {excerpt(text, start)}. End your message after it.")
    try:
        value, end = strict_json.read_value(text, opening.end())
    except JsonProblem as problem:
        raise ParseError(f"The tool call must be {_LLAMA_SHAPE}, but {problem}", unclosed=problem.cut) from None
    arguments = value.get("parameters", value.get("arguments"))
    if not isinstance(value["name"], str) or not isinstance(arguments, dict):
        raise ParseError(f"The tool call must be {_LLAMA_SHAPE}.")
    return ToolCall(value["name"], arguments), _after(_SEPARATOR, text, end)


def _xml_call(text: str, start: int, tools: Toolset) -> _Call:
    opening = _FUNCTION.match(text, start)
    if opening is None:
        raise _unexpected(text, start, _XML_SHAPE)
    name, at = opening[1].strip(), opening.end()
    arguments: dict[str, Any] = {}
    while (parameter := _PARAMETER.match(text, at)) is not None:
        arguments[parameter[1]] = _typed(parameter[2], _types_of(tools, name, parameter[1]))
        at = parameter.end()
    if (ending := _FUNCTION_END.match(text, at)) is None:
        raise ParseError(f"The call of {name!r:.100} is never closed. Write {_XML_SHAPE}.", unclosed=True)
    return ToolCall(name, arguments), ending.end()


def _deepseek_call(text: str, start: int) -> _Call:
    opening = _DEEPSEEK_CALL.match(text, start)
    if opening is None:
        raise _unexpected(text, start, _DEEPSEEK_SHAPE)
    name = (opening[1] or opening[2]).strip()
    try:
        arguments, end = strict_json.read_value(text, opening.end())
    except JsonProblem as problem:
        raise ParseError(
            f"The arguments of {name!r:.100} must be a JSON object, but {problem}", unclosed=problem.cut
        ) from None
    if not isinstance(arguments, dict):
        raise ParseError(
            f"The arguments of {name!r:.100} must be a JSON object, not {strict_json.json_kind(arguments)}."
        )
    if (ending := _DEEPSEEK_END.match(text, end)) is None:
        raise ParseError(f"The call of {name!r:.100} is never closed. Write {_DEEPSEEK_SHAPE}.", unclosed=True)
    return ToolCall(name, arguments), ending.end()


def _unexpected(text: str, start: int, shape: str) -> ParseError:
    """Return the error for text that is not a call: a truncated call if it begins like one, else text after a call."""
    if text.startswith("<", start):
        return ParseError(f"The tool call is not complete: {excerpt(text, start)}. Write {shape}.", unclosed=True)
    return ParseError(f"There is text after the call: {excerpt(text, start)}. End your message after it.")


def _after(separator: re.Pattern[str], text: str, at: int) -> int:
    match = separator.match(text, at)
    return at if match is None else match.end()


def _types_of(tools: Toolset, name: str, key: str) -> frozenset[str]:
    """Return the JSON types of a parameter; empty if unknown."""
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
    """Parse a value written without quotes, as JSON or Python literals, if the parameter may have its type.

    If the parameter may be a string and no other of its types fits, the value is the text itself.
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
