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
_PARAMETER = re.compile(r"<parameter=([^\n>]+)>\n?")
_PARAMETER_END = "</parameter>"
_AFTER_VALUE = re.compile(r"<parameter=|</function>")
_FUNCTION_END = re.compile(r"</function>\s*(?:</tool_call>)?\s*")
_XML_SHAPE = "<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>"
_LITERALS = {"True": True, "False": False, "None": None}

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
    return _read(text, _XML, lambda start: xml_call(text, start, tools))


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


def xml_call(text: str, start: int, tools: Toolset) -> _Call:
    """Return the call that begins with `<function=NAME>` at `start`, and the position after it. Raises `ParseError`."""
    opening = _FUNCTION.match(text, start)
    if opening is None:
        raise _unexpected(text, start, _XML_SHAPE)
    name, at = opening[1].strip(), opening.end()
    arguments: dict[str, Any] = {}
    while (parameter := _PARAMETER.match(text, at)) is not None:
        key = parameter[1]
        if key in arguments:
            raise ParseError(f"The parameter {key!r:.100} appears twice in the call of {name!r:.100}. Write it once.")
        value, at = _xml_value(text, parameter)
        arguments[key] = _typed(value, _broken_by(tools, name, key))
    if (ending := _FUNCTION_END.match(text, at)) is None:
        raise ParseError(f"The call of {name!r:.100} is never closed. Write {_XML_SHAPE}.", unclosed=True)
    return ToolCall(name, arguments), ending.end()


def _xml_value(text: str, parameter: re.Match[str]) -> tuple[str, int]:
    """Return the value of a parameter and the position after it.

    A value ends at the last `</parameter>` before the next parameter or the end of the call, so it may hold that tag.
    """
    following = _AFTER_VALUE.search(text, parameter.end())
    limit = len(text) if following is None else following.start()
    end = text.rfind(_PARAMETER_END, parameter.end(), limit)
    if end < 0:
        raise ParseError(f"The value of {parameter[1]!r:.100} is never closed. Write {_XML_SHAPE}.", unclosed=True)
    after = skip_space(text, end + len(_PARAMETER_END))
    if following is not None and after < limit:
        raise ParseError(f"After the value of {parameter[1]!r:.100} comes {excerpt(text, after)}. Write {_XML_SHAPE}.")
    return text[parameter.end() : end].removesuffix("\n"), after


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


_Broken = Callable[[Any], set[str]]
"""Returns the keywords of a schema that a value violates; empty for a valid value."""


def _broken_by(tools: Toolset, name: str, key: str) -> _Broken | None:
    """Return the check of a parameter's schema; `None` for an unknown parameter."""
    from jsonschema import Draft202012Validator  # slow to import
    from referencing import Registry

    parameters = tools.get(name).parameters if name in tools else {}
    if (schema := parameters.get("properties", {}).get(key)) is None:
        return None
    # An empty registry: references to other documents are never fetched.
    whole = Draft202012Validator(parameters, registry=Registry())

    def broken(value: Any) -> set[str]:
        try:
            return {str(error.validator) for error in whole.descend(value, schema)}
        except Exception:  # a schema that refers to what is not in it, or to itself
            return {"type"}

    return broken


def _typed(text: str, broken: _Broken | None) -> Any:
    """Return the value that a text without quotes stands for.

    It is the text itself if the schema allows that, else what the text says as JSON or as a Python literal. `null` is
    null wherever the schema allows it. A value that the schema does not allow is left to the toolset to explain.
    """
    written = text.strip()
    value = _LITERALS[written] if written in _LITERALS else _json(written, text)
    if broken is None:
        return value
    if value is None and not broken(None):
        return None
    faults = broken(text)
    return text if not faults or ("type" not in faults and broken(value)) else value


def _json(written: str, otherwise: str) -> Any:
    try:
        value, end = strict_json.read_value(written)
    except JsonProblem:
        return otherwise
    return value if skip_space(written, end) == len(written) else otherwise
