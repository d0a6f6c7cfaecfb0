"""The native dialect: calls in the `tool_calls` of messages, as chat endpoints take and return them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.dialects.base import Parsed
from agentgym.dialects.text import TextDialect, Unreadable, before_call, begun, first_outside_reasoning, set_apart
from agentgym.messages import ToolCall, calls_of
from agentgym.records import strict_json
from agentgym.records.strict_json import JsonProblem, excerpt, skip_space
from agentgym.toolset import Toolset

_MARKS = re.compile(r'<think>|^\{"tool_calls":', re.MULTILINE)
_BEGINNING = re.compile("^" + begun('{"tool_calls":'), re.MULTILINE)
_IN_JSON = re.compile(r"<(?=/?think>)")


class Native(TextDialect):
    """No instructions: whoever plays the model is given the schemas and returns messages with `tool_calls`.

    For players that only write text, a call is a last line of JSON: `{"tool_calls": [{"function": {...}}]}`. `render`
    raises `ValueError` for text in which a line begins like that.
    """

    name = "native"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return an empty text: the schemas go to the endpoint beside the messages."""
        return ""

    def _read(self, text: str, tools: Toolset) -> Parsed:
        first = first_outside_reasoning(text, _MARKS)
        if first is None:
            return Parsed(text)
        try:
            value, end = strict_json.read_value(text, first.start())
        except JsonProblem as problem:
            raise Unreadable(f'Write {{"tool_calls": [...]}}, but {problem}', unclosed=problem.cut) from None
        if (end := skip_space(text, end)) < len(text):
            raise Unreadable(f"There is text after the calls: {excerpt(text, end)}. End your message after them.")
        if not (calls := calls_of(value)):
            raise Unreadable('The list of "tool_calls" is empty. Write a call, or text only.')
        return Parsed(before_call(text, first.start()), calls)

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return _BEGINNING

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        entries = [{"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in calls]
        written = _IN_JSON.sub(r"\\u003c", strict_json.write({"tool_calls": entries}))
        return set_apart(text, written) if calls else text
