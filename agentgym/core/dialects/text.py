"""Base of the text dialects: guards around `parse` and `render`, and parsing of bodies and reasoning.

A subclass implements `_read`, which may raise, and `_write`; the base class makes `parse` total and `render` exact.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agentgym.base import strict_json
from agentgym.base.errors import ToolError
from agentgym.base.strict_json import JsonProblem
from agentgym.core.dialects.base import MAX_ACTION_CHARS, Parsed
from agentgym.core.messages import Message, ToolCall, tool_result, user
from agentgym.core.toolset import Tool, Toolset

THINK, END_THINK = "<think>", "</think>"


class ParseError(ToolError):
    """A model's text cannot be parsed. `unclosed` means that a construct in it was never closed."""

    def __init__(self, message: str, *, unclosed: bool = False):
        super().__init__(message)
        self.unclosed = unclosed


class TextDialect(ABC):
    """Base of the dialects that mark calls in the text. Results are tool messages; problems are user messages."""

    name: ClassVar[str]

    @abstractmethod
    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return the part of a system prompt that explains how to call these tools, at most `max_calls` in a turn."""

    @abstractmethod
    def _read(self, text: str, tools: Toolset) -> Parsed:
        """Parse a text of bounded length. Raises `ToolError` with a message for the model."""

    @abstractmethod
    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        """Write a turn. The caller rejects a text that `_read` would parse differently."""

    def parse(self, text: str, tools: Toolset) -> Parsed:
        """Parse a model's text. Never raises: unreadable text is reported in `Parsed.error`."""
        try:
            check_readable(text)
            return self._read(text, tools)
        except ParseError as problem:
            return Parsed(error=str(problem), unclosed=problem.unclosed)
        except ToolError as problem:
            return Parsed(error=_sentence(str(problem)))

    def settled(self, text: str, tools: Toolset) -> int:
        """Return the number of leading characters of an unfinished turn that are certainly text.

        The rest may be a call or the beginning of one.
        """
        call = self._beginning_of_call(tools)
        if call is None:
            return 0
        try:
            match = first_outside_reasoning(text, re.compile(f"{THINK}|{call.pattern}", call.flags))
        except ParseError:  # reasoning is text, even if it is never closed
            return len(text)
        return len(before_call(text, len(text) if match is None else match.start()))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str] | None:
        """Return a pattern for the beginning of a call or, at the end of an unfinished text, a prefix of it.

        The default, `None`, means that it is unknown.
        """
        return None

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        """Write an assistant turn. Raises `ValueError` if `parse` would not return it unchanged."""
        for call in calls:
            strict_json.write(dict(call.arguments))
        written = self._write(text, calls, tools)
        check_round_trip(self.parse(written, tools), text, calls, self.name)
        return written

    def result(self, call: ToolCall, content: str) -> Message:
        """Return the message that shows the model the result of a call."""
        return tool_result(call, content)

    def problem(self, content: str) -> Message:
        """Return the message that shows the model why its action could not be read."""
        return user(f"Error: {content}")


def check_readable(text: str) -> None:
    """Raise `ToolError` for a text that no dialect accepts: empty, too long, or not valid Unicode."""
    if len(text) > MAX_ACTION_CHARS:
        raise ParseError(f"Your message has {len(text)} characters; at most {MAX_ACTION_CHARS} are read. Be shorter.")
    if not text.strip():
        raise ParseError("Your message is empty. Call a tool.")
    strict_json.check_text(text)


def check_round_trip(back: Parsed, text: str, calls: Sequence[ToolCall], dialect: str) -> None:
    """Raise `ValueError` unless `back` equals the rendered text and calls."""
    if back.error is not None:
        raise ValueError(f"the {dialect} dialect cannot express this turn; it would be read as: {back.error}")
    if back.text != text:
        raise ValueError(f"the {dialect} dialect cannot express the text {text[:80]!r}; it reads {back.text[:80]!r}")
    expected = [_plain(call) for call in calls]
    for call, read in zip(expected, map(_plain, back.calls), strict=False):
        if call != read:
            raise ValueError(f"the {dialect} dialect cannot express the call {call!r:.200}; it reads {read!r:.200}")
    if len(calls) != len(back.calls):
        raise ValueError(f"the {dialect} dialect reads {len(back.calls)} calls where {len(calls)} were meant")


def before_call(text: str, start: int) -> str:
    """Return the text before a call that begins at `start`, without the line break that separates them."""
    return text[:start].removesuffix("\n")


def set_apart(text: str, call: str) -> str:
    """Write text and then a call on a line of its own: the inverse of `before_call`."""
    return f"{text}\n{call}" if text else call


def prefix_pattern(mark: str) -> str:
    r"""Return a pattern for a mark or, at the end of a text, a prefix of it: `ab` is written `a(?:\Z|b)`."""
    *earlier, pattern = map(re.escape, mark)
    for character in reversed(earlier):
        pattern = rf"{character}(?:\Z|{pattern})"
    return pattern


def first_outside_reasoning(text: str, marks: re.Pattern[str]) -> re.Match[str] | None:
    """Find the first mark that is not in `<think>...</think>`; the chat template may have written the `<think>`.

    Args:
        text: The model's text.
        marks: The pattern to find; it must match `<think>` too.

    Raises:
        ParseError: A `<think>` is never closed.
    """
    start = _after(text, END_THINK, 0) or 0
    while (match := marks.search(text, start)) and match[0] == THINK:
        end = _after(text, END_THINK, match.end())
        if end is None:
            raise ParseError(f"{THINK} is never closed. Close it with {END_THINK}, then call a tool.", unclosed=True)
        start = end
    return match


def text_parameter(tool: Tool) -> str | None:
    """Return the name of a tool's only parameter if it is a required string, else `None`."""
    properties = tool.parameters.get("properties", {})
    if len(properties) != 1 or tool.parameters.get("required") != list(properties):
        return None
    name, schema = next(iter(properties.items()))
    return name if schema.get("type") == "string" else None


def text_parameters(tools: Toolset) -> dict[str, str]:
    """Return the parameter name of each tool that takes exactly one string, by tool name."""
    return {tool.name: parameter for tool in tools if (parameter := text_parameter(tool)) is not None}


def read_body(body: str, name: str) -> dict[str, Any]:
    """Parse a call's body as a JSON object; an empty body means no arguments. Raises `ParseError`."""
    if not body.strip():
        return {}
    try:
        return strict_json.read_object(body)
    except JsonProblem as problem:
        raise ParseError(f"The arguments of {name!r} must be a JSON object, but {problem}") from None


def write_body(call: ToolCall) -> str:
    """Write the arguments of a call in the form that `read_body` parses."""
    return strict_json.write(dict(call.arguments)) if call.arguments else ""


def text_argument(call: ToolCall, parameter: str) -> str:
    """Return the single string argument of a call. Raises `ValueError` for missing or other arguments."""
    value = call.arguments.get(parameter)
    if len(call.arguments) != 1 or not isinstance(value, str):
        raise ValueError(f"a call of {call.name!r} takes the string {parameter!r} only, not {dict(call.arguments)!r}")
    return value


def allowed(max_calls: int, calls: str) -> str:
    """Return the sentence that allows several calls in a message; empty if only one is allowed.

    Args:
        max_calls: Maximum number of calls in a message.
        calls: The dialect's word for calls, such as `tags`.
    """
    return f"\nUp to {max_calls} {calls} may follow one another in a message." if max_calls > 1 else ""


def listing(tool: Tool, call: str) -> str:
    """Describe a tool for a system prompt, with `call` as an example of its syntax."""
    parameter = text_parameter(tool)
    lines = [f"{call}\n  {tool.description}"]
    if parameter is not None:
        lines.append(f"{parameter}: {tool.parameters['properties'][parameter].get('description', '')}")
    elif tool.parameters.get("properties"):
        lines.append(f"Arguments (JSON schema): {strict_json.write(tool.parameters)}")
    return "\n  ".join(lines)


def _plain(call: ToolCall) -> tuple[str, Mapping[str, Any]]:
    return call.name, strict_json.read_object(strict_json.write(dict(call.arguments)))


def _after(text: str, mark: str, start: int) -> int | None:
    position = text.find(mark, start)
    return None if position < 0 else position + len(mark)


def _sentence(problem: str) -> str:
    return problem[:1].upper() + problem[1:]
