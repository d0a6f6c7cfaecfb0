"""Recognises calls that a model wrote in another form than its dialect's, as models do that never learned the dialect.

Nothing here makes a dialect accept them: an environment explains them to the model, and runs them only if it is
lenient. The time to read a text is linear in its length.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.base import strict_json
from agentgym.base.errors import ToolError
from agentgym.core.dialects.base import MAX_ACTION_CHARS, Dialect
from agentgym.core.dialects.compact import Compact
from agentgym.core.dialects.families import xml_call
from agentgym.core.dialects.fenced import Fenced
from agentgym.core.dialects.tags import Tags
from agentgym.core.dialects.text import THINK, text_parameter
from agentgym.core.messages import ToolCall, calls_of
from agentgym.core.toolset import Toolset


@dataclass(frozen=True)
class Form:
    """A form of calls."""

    place: str
    """Where the call stands, to continue the sentence "your call ..."."""
    dialect: str = ""
    """The dialect that reads it; empty if none does. `template` needs a model whose own chat template writes it."""


FORMS: Mapping[str, Form] = {
    "several_calls": Form("comes with others in one message"),
    "text_around": Form("has text after it"),
    "malformed": Form("is malformed"),
    "unclosed_tag": Form("stands in a tag that is never closed"),
    "json_fence": Form("stands as JSON in a Markdown fence"),
    "bare_json": Form("stands as JSON in the text", "template"),
    "wrong_tag": Form("stands in other tags"),
    "name_and_json": Form("is a name with JSON after it"),
    "python": Form("is written as a call in Python"),
    "hermes": Form("stands as JSON in <tool_call> tags", "hermes"),
    "native": Form("stands in a list of tool_calls", "native"),
    "tags": Form("stands in tags named after the tool", "tags"),
    "fenced": Form("stands in a fence named after the tool", "fenced"),
    "compact": Form("stands after an @", "compact"),
    "xml": Form("stands in <function=...> tags", "template"),
    "llama": Form("stands after <|python_tag|>", "template"),
    "deepseek": Form("stands between the marks of DeepSeek's calls", "template"),
    "mistral": Form("stands after [TOOL_CALLS]", "template"),
    "glm": Form("stands in <arg_key> and <arg_value> tags", "template"),
    "kimi": Form("stands between the marks of Kimi's calls", "template"),
    "harmony": Form("stands in a channel of the harmony format", "template"),
}
"""All forms, by the kind under which near misses are counted."""


@dataclass(frozen=True)
class OtherForm:
    """Calls that stand in a text in another form than the dialect's."""

    kind: str
    """A name in `FORMS`."""
    calls: tuple[ToolCall, ...]

    @property
    def sentence(self) -> str:
        """A sentence for the model that says what kept the call from running."""
        return f"Your call of {self.calls[0].name!r} {FORMS[self.kind].place}, so it did not run."


def near_miss(text: str, tools: Toolset, dialect: Dialect, max_calls: int = 1) -> OtherForm | None:
    """Return the calls of known tools in a text that a dialect cannot read, if there are any.

    Args:
        text: The model's text.
        tools: The tools that it can call.
        dialect: The dialect of its calls.
        max_calls: Maximum number of calls in a turn.
    """
    if len(text) > MAX_ACTION_CHARS or not any(name in text for name in tools.names):
        return None
    parsed = dialect.parse(text, tools)
    if parsed.calls:
        too_many = len(parsed.calls) > max_calls and _are_known(parsed.calls, tools)
        return OtherForm("several_calls", parsed.calls) if too_many else None
    body = _after_reasoning(text)
    if calls := _without_end(body, tools, dialect):
        return OtherForm("text_around", calls)
    for read in _READERS:
        kind, calls = read(body, tools)
        if calls:
            return OtherForm("malformed" if kind == dialect.name else kind, calls)
    return None


def several_calls(message: Mapping[str, Any], tools: Toolset, max_calls: int) -> OtherForm | None:
    """Return the calls of an assistant message with more than `max_calls` calls of known tools, else `None`."""
    try:
        calls = calls_of(message)
    except ToolError:
        return None
    return OtherForm("several_calls", calls) if len(calls) > max_calls and _are_known(calls, tools) else None


_REASONING_END = re.compile(r"</think>|<\|end\|><\|start\|>|\[/THINK\]")
_ENDS = ("```", ">", "}", "]")
"""Ends of calls. Text after the last of them is left out to see whether the dialect reads the rest."""
_TAGS = re.compile(r"<[^<>]*>|```\w*")


def _after_reasoning(text: str) -> str:
    """Return the text after the reasoning, without reasoning that is still open."""
    return text[max((match.end() for match in _REASONING_END.finditer(text)), default=0) :].partition(THINK)[0]


def _without_end(body: str, tools: Toolset, dialect: Dialect) -> tuple[ToolCall, ...]:
    """Return the calls that the dialect reads in a text without its last words."""
    for end in sorted({body.rfind(mark) + len(mark) for mark in _ENDS if mark in body}, reverse=True):
        if re.search(r"\w", _TAGS.sub("", body[end:])):
            parsed = dialect.parse(body[:end], tools)
            if _are_known(parsed.calls, tools):
                return parsed.calls
    return ()


def _are_known(calls: Iterable[ToolCall], tools: Toolset) -> bool:
    names = [call.name for call in calls]
    return bool(names) and all(name in tools for name in names)


# Calls as data.

_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "kwargs", "params")
_ABOUT = frozenset({"type", "id", "thought", "thoughts", "reasoning"})
_MAX_DEPTH = 5
_MAX_TRIES = 8
"""Beginnings of calls that may turn out to be none before a text counts as having none; this keeps the time linear."""
_PREFIX = r"(?:(?:functions?|tools?|default_api)\.)?"
_NAME_IN = re.compile(rf"{_PREFIX}([\w.-]+?)(?::\d+)?")


def _tool_name(name: Any, tools: Toolset) -> str | None:
    """Return the tool that a name means: some models write `functions.NAME` or `NAME:0`."""
    if not isinstance(name, str):
        return None
    match = _NAME_IN.fullmatch(name.strip())
    return next((n for n in (name.strip(), match[1] if match else "") if n in tools), None)


def _calls_in(value: Any, tools: Toolset, depth: int = 0) -> Iterator[ToolCall]:
    """Yield the calls in a JSON value: objects that name a tool, alone or in lists and wrappers."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict) and (call := _as_call(value, tools)) is not None:
        yield call
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _calls_in(inner, tools, depth + 1)


def _as_call(value: dict[str, Any], tools: Toolset) -> ToolCall | None:
    for key in _NAMES:
        if (name := _tool_name(value.get(key), tools)) is not None:
            holder = next((word for word in _ARGUMENTS if word in value), None)
            rest = {word: item for word, item in value.items() if word != key and word not in _ABOUT}
            inner = rest if holder is None else value[holder]
            arguments = _as_arguments(inner, name, tools, is_known=holder is not None)
            return None if arguments is None else ToolCall(name, arguments)
    if len(value) != 1:
        return None
    [(key, inner)] = value.items()
    if not isinstance(inner, dict) or (name := _tool_name(key, tools)) is None:
        return None
    arguments = _as_arguments(inner, name, tools)
    return None if arguments is None else ToolCall(name, arguments)


def _as_arguments(value: Any, name: str, tools: Toolset, *, is_known: bool = False) -> dict[str, Any] | None:
    """Return a value as the arguments of a tool, or `None` if it can hardly be meant as such.

    Args:
        value: An object, an object as JSON text, or the only text that the tool takes.
        name: The tool.
        tools: The tools.
        is_known: Whether the value is surely meant as arguments, so that wrong names are the model's mistake.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = strict_json.read_object(value) if value.strip() else {}
        except ToolError:
            parameter = text_parameter(tools.get(name))
            return None if parameter is None else {parameter: value}
    if not isinstance(value, dict):
        return None
    return value if is_known or value.keys() <= tools.get(name).parameters.get("properties", {}).keys() else None


# The forms. Each reader returns the calls, and the kind of their form.

_Reading = tuple[str, tuple[ToolCall, ...]]

_OBJECT = re.compile(r"""[{]\s*["']""")
_FENCE_BEFORE = re.compile(r"```[^\n`]*\s*\[?\s*\Z")
_TAG_BEFORE = re.compile(r"(?:<[^<>\n]{1,40}>|\[[A-Z_]{2,20}\])\s*\[?\s*\Z")
_MARKS = (
    ("mistral", re.compile(r"\[TOOL_CALLS\]")),
    ("deepseek", re.compile("<｜tool▁call")),
    ("kimi", re.compile(r"<\|tool_calls?_(?:section_)?begin\|>")),
    ("harmony", re.compile(r"<\|channel\|>|\bto=functions\.")),
    ("llama", re.compile(r"<\|python_tag\|>")),
)
_NEAR = 80
"""Number of characters before a call that tell its form."""


def _marked(body: str) -> str | None:
    """Return the kind of the first special token that only one family of models writes."""
    return next((kind for kind, mark in _MARKS if mark.search(body)), None)


def _scan(
    body: str, opening: re.Pattern[str], read: Callable[[re.Match[str]], tuple[Iterable[ToolCall] | None, int]]
) -> tuple[tuple[ToolCall, ...], int]:
    """Return the calls in a text, and the start of the first one.

    Args:
        body: The text.
        opening: How a call may begin.
        read: Returns the calls at such a beginning, or `None` if there can be none, and where to continue.
    """
    calls: list[ToolCall] = []
    first, at, tries = 0, 0, _MAX_TRIES
    while tries and (match := opening.search(body, at)) is not None:
        new, at = read(match)
        tries -= new is None
        first = first if calls else match.start()
        calls += new or ()
    return tuple(calls), first


def _json_objects(body: str, tools: Toolset) -> _Reading:
    """Read JSON objects that name a tool, whatever stands around them."""

    def read(opening: re.Match[str]) -> tuple[Iterable[ToolCall] | None, int]:
        value, end = _object_at(body, opening.start())
        return None if value is None else _calls_in(value, tools), end

    calls, first = _scan(body, _OBJECT, read)
    return _marked(body) or _json_kind(body, first), calls


def _json_kind(body: str, start: int) -> str:
    before = body[max(0, start - _NEAR) : start]
    if re.match(r'\{\s*"tool_calls"', body[start : start + _NEAR]):
        return "native"
    if re.search(r"<tool_call>\s*\[?\s*\Z", before):
        return "hermes" if "</tool_call>" in body else "unclosed_tag"
    if _FENCE_BEFORE.search(before):
        return "json_fence"
    return "wrong_tag" if _TAG_BEFORE.search(before) else "bare_json"


def _object_at(body: str, start: int) -> tuple[Any, int]:
    """Return the object at `start`, in JSON or as a Python literal, or `None`; and where to continue."""
    try:
        return strict_json.read_value(body, start)
    except ToolError:
        pass
    try:
        value, end = _MULTILINE.raw_decode(body, start)
        return _as_data(value), end
    except (ValueError, RecursionError):
        end = _balanced(body, start)
        return (None, start + 1) if end is None else (_literal(body[start:end]), end)


_MULTILINE = json.JSONDecoder(strict=False)
"""Reads strings with line breaks in them."""


def _literal(source: str) -> Any:
    try:
        return _as_data(ast.literal_eval(_tidy_escapes(source)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _as_data(value: Any) -> Any:
    """Return a Python value as JSON data. Raises `TypeError` or `ValueError`, as for NaN and lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.loads(text.encode())


_TOKENS = re.compile(r"""[\[\](){}]|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'""", re.DOTALL)


def _balanced(body: str, start: int) -> int | None:
    """Return the end of the bracket that opens at `start`; brackets in quotes do not count."""
    depth = 0
    for token in _TOKENS.finditer(body, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if not depth:
            return token.end()
    return None


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _tidy_escapes(source: str) -> str:
    r"""Write unknown escapes such as `\d` as `\\d`, which means the same: Python warns of them."""
    return _ESCAPE.sub(lambda match: match[0] if match[1] in "\\'\"abfnrtvxNuU01234567\n" else f"\\{match[0]}", source)


_BETWEEN = (
    r"(?::\d+)?(?:\s++|[:>\"']|<[^<>\n]{1,60}>|\[ARGS\]|\[CALL_ID\]\w{1,40}|```(?:json)?|json\b|commentary\b"
    r"|Action Input:|Arguments?:){0,16}+(?=\{)"
)


def _named_json(body: str, tools: Toolset) -> _Reading:
    """Read names of tools that are followed by an object: Mistral, DeepSeek, Kimi, gpt-oss, ReAct and others."""
    opening = re.compile(rf"(?<![\w-]){_PREFIX}({_either(tools)}){_BETWEEN}")

    def read(name: re.Match[str]) -> tuple[Iterable[ToolCall] | None, int]:
        value, end = _object_at(body, name.end())
        arguments = _as_arguments(value, name[1], tools) if isinstance(value, dict) else None
        return None if arguments is None else (ToolCall(name[1], arguments),), end

    calls, first = _scan(body, opening, read)
    return _marked(body) or _name_kind(body, first), calls


def _name_kind(body: str, start: int) -> str:
    before = body[max(0, start - _NEAR) : start]
    if re.search(r"``` *\Z", before):
        return "fenced"
    if before.endswith("<"):
        return "tags"
    if re.search(r"(?:\A|\n)@\Z", before):
        return "compact"
    return "wrong_tag" if re.search(r"""<[\w-]{1,40}[\s=][^<>\n]{0,40}\Z""", before) else "name_and_json"


_INVOKE = re.compile(r"<(?:｜DSML｜)?invoke name=[\"']?([^\"'>\n]+)[\"']?>")
_INVOKED = re.compile(r"<(/?)(?:｜DSML｜)?(?:invoke|parameter)(?: name=[\"']?([^\"'>\n]+)[\"']?[^>\n]*)?>")
_GLM = re.compile(r"<tool_call>\s*([\w.-]+)\s*(?=<arg_key>|</tool_call>)")
_GLM_KEY = re.compile(r"<arg_key>\s*([^<\n]{1,200}?)\s*</arg_key>\s*<arg_value>")


def _xml(body: str, tools: Toolset) -> _Reading:
    """Read tags with one parameter each: Qwen3-Coder's, GLM's, and `<invoke>`, as Claude and MiniMax write them."""
    kind = "xml"
    if "<function=" not in body and _GLM.search(body):
        kind, body = "glm", _GLM_KEY.sub(r"<parameter=\1>", _GLM.sub(r"<function=\1>", body))
        body = body.replace("</arg_value>", "</parameter>").replace("</tool_call>", "</function>")
    elif "<function=" not in body and _INVOKE.search(body):
        kind, body = "wrong_tag", _INVOKED.sub(_as_function, body)
    calls: list[ToolCall] = []
    at = body.find("<function=")
    while at >= 0:
        try:
            call, end = xml_call(body, at, tools)
        except ToolError:
            break
        if (name := _tool_name(call.name, tools)) is None:
            break
        calls.append(ToolCall(name, call.arguments))
        at = body.find("<function=", end)
    return kind, tuple(calls)


def _as_function(tag: re.Match[str]) -> str:
    word = "function" if "invoke" in tag[0] else "parameter"
    return f"</{word}>" if tag[1] else f"<{word}={tag[2] or ''}>"


def _texts(body: str, tools: Toolset) -> _Reading:
    """Read the dialects that write a tool's only text as it is."""
    named_fence = re.search(rf"^ {{0,3}}```+ *(?:{_either(tools)})\b", body, re.MULTILINE)
    for dialect in (Tags(), Compact(), *([Fenced()] if named_fence else [])):
        parsed = dialect.parse(body, tools)
        calls = parsed.calls or _without_end(body, tools, dialect)
        if _are_known(calls, tools):
            return dialect.name, calls
    return "", ()


def _python(body: str, tools: Toolset) -> _Reading:
    """Read calls in Python at the beginning of a line or in a list, as some Llama and Gemma models write them."""
    opening = re.compile(
        rf"(?:^|[\[,;>`(]|\bawait\b|=)[ \t]*(?:print\()?{_PREFIX}(?P<name>{_either(tools)})\(", re.MULTILINE
    )

    def read(name: re.Match[str]) -> tuple[Iterable[ToolCall] | None, int]:
        end = _balanced(body, name.end() - 1)
        call = None if end is None else _python_call(body[name.start("name") : end], name["name"], tools)
        return (None, name.end()) if call is None or end is None else ((call,), end)

    return "python", _scan(body, opening, read)[0]


def _python_call(source: str, name: str, tools: Toolset) -> ToolCall | None:
    try:
        call = ast.parse(_tidy_escapes(f"f{source.removeprefix(name)}"), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(call, ast.Call):
        return None
    properties = tools.get(name).parameters.get("properties", {})
    values = [_node_value(node) for node in (*call.args, *(word.value for word in call.keywords))]
    if any(value is _NO_VALUE for value in values) or len(call.args) > max(1, len(properties)):
        return None
    if len(values) == 1 and call.args and isinstance(values[0], dict):
        return None if (arguments := _as_arguments(values[0], name, tools)) is None else ToolCall(name, arguments)
    keys = [*properties][: len(call.args)] + [word.arg or "" for word in call.keywords]
    arguments = dict(zip(keys, values, strict=False))
    return ToolCall(name, arguments) if len(arguments) == len(values) and "" not in arguments else None


_NO_VALUE = object()


def _node_value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "null": None}.get(node.id, _NO_VALUE)
    try:
        return _as_data(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NO_VALUE


def _either(tools: Toolset) -> str:
    return "|".join(re.escape(name) for name in sorted(tools.names, key=len, reverse=True))


_READERS: tuple[Callable[[str, Toolset], _Reading], ...] = (_json_objects, _named_json, _xml, _texts, _python)
