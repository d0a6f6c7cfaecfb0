"""The native dialect: calls in the `tool_calls` of messages, as chat endpoints take and return them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.base import strict_json
from agentgym.base.strict_json import JsonProblem, excerpt, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.text import (
    ParseError,
    TextDialect,
    before_call,
    first_outside_reasoning,
    prefix_pattern,
    set_apart,
)
from agentgym.core.messages import ToolCall, calls_of
from agentgym.core.toolset import Toolset

_MARKS = re.compile(r'<think>|^\{"tool_calls":', re.MULTILINE)
_BEGINNING = re.compile("^" + prefix_pattern('{"tool_calls":'), re.MULTILINE)
_IN_JSON = re.compile(r"<(?=/?think>)")


class Native(TextDialect):
    """No instructions: the player passes the schemas to the model and returns messages with `tool_calls`.

    For players that only write text, a call is a last line of JSON: `{"tool_calls": [{"function": {...}}]}`. `render`
    raises `ValueError` for text with a line that begins like that.
    """

    name = "native"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return an empty text: the endpoint receives the schemas separately."""
        return ""

    def _read(self, text: str, tools: Toolset) -> Parsed:
        first = first_outside_reasoning(text, _MARKS)
        if first is None:
            return Parsed(text)
        try:
            value, end = strict_json.read_value(text, first.start())
        except JsonProblem as problem:
            raise ParseError(f'Write {{"tool_calls": [...]}}, but {problem}', unclosed=problem.cut) from None
        if (end := skip_space(text, end)) < len(text):
            raise ParseError(f"There is text after the calls: {excerpt(text, end)}. End your message after them.")
        if not (calls := calls_of(value)):
            raise ParseError('The list of "tool_calls" is empty. Write a call, or text only.')
        return Parsed(before_call(text, first.start()), calls)

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return _BEGINNING

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        entries = [{"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in calls]
        written = _IN_JSON.sub(r"\\u003c", strict_json.write({"tool_calls": entries}))
        return set_apart(text, written) if calls else text
