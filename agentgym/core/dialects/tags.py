"""The tags dialect, as in Search-R1: one tag per tool, results in `<information>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from agentgym.base.strict_json import excerpt, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.text import (
    ParseError,
    TextDialect,
    allowed,
    before_call,
    first_outside_reasoning,
    listing,
    prefix_pattern,
    read_body,
    set_apart,
    text_argument,
    text_parameters,
    write_body,
)
from agentgym.core.messages import Message, ToolCall, user
from agentgym.core.toolset import Toolset

_ENTITY = re.compile(r"&(?:(lt)|(amp)|#(\d{1,7}));")
_IS_ENTITY = r"&(?=(?:lt|amp|#\d{1,7});)"

_INSTRUCTIONS = """# Tools

Call a tool by writing its tag. You may reason first, in <think>...</think> or in plain text. End your message after \
the closing tag; the result comes back in <information>...</information>.

{tools}

To write one of these tags inside a tag, write &lt; for its <."""


class Tags(TextDialect):
    """`<search>query</search>`: a tool with one string parameter takes the body, any other a JSON object.

    In such a string, white space at the ends is ignored, and `&lt;`, `&amp;` and `&#32;` (a character code) are
    entities. `render` uses them where needed, so every argument can be expressed. It raises `ValueError` for text that
    would be read as a call, and for a call without its string.
    """

    name = "tags"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """List the tools with an example of each tag."""
        strings = text_parameters(tools)
        listings = []
        for tool in tools:
            body = strings.get(tool.name) or ("{...}" if tool.parameters.get("properties") else "")
            listings.append(listing(tool, f"<{tool.name}>{body}</{tool.name}>"))
        return _INSTRUCTIONS.format(tools="\n".join(listings)) + allowed(max_calls, "tags")

    def result(self, call: ToolCall, content: str) -> Message:
        """Return the result in `<information>`, as a user message."""
        return user(f"<information>{content.replace('</information>', '&lt;/information>')}</information>")

    def _read(self, text: str, tools: Toolset) -> Parsed:
        tags, strings = _tags(tools.names), text_parameters(tools)
        first = first_outside_reasoning(text, tags.with_think)
        if first is None:
            return Parsed(text)
        calls, at = [], first.start()
        while at < len(text):
            opening = tags.only.match(text, at)
            if opening is None:
                raise ParseError(f"There is text after the call: {excerpt(text, at)}. End your message after it.")
            name, (body, at) = opening[2], _body(text, opening, tags.only)
            calls.append(ToolCall(name, _arguments(name, body, strings)))
            at = skip_space(text, at)
        return Parsed(before_call(text, first.start()), tuple(calls))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return _tags(tools.names).beginning

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        tags, strings = _tags(tools.names), text_parameters(tools)
        written = "\n".join(_write_call(call, strings, tags) for call in calls)
        return set_apart(text, written) if calls else text


class _Tags:
    """Patterns for the tags of a toolset."""

    def __init__(self, names: tuple[str, ...]):
        either = "|".join(map(re.escape, names)) or "(?!)"
        self.only = re.compile(rf"<(/?)({either})(/?)>")
        self.with_think = re.compile(rf"<think>|<(/?)({either})(/?)>")
        marks = (form.format(name) for name in names for form in ("<{}>", "</{}>", "<{}/>"))
        self.beginning = re.compile("|".join(map(prefix_pattern, marks)) or "(?!)")
        self.in_json = re.compile(rf"<(?=/?(?:think|{either})/?>)")
        self.in_string = re.compile(rf"{_IS_ENTITY}|{self.in_json.pattern}")


@lru_cache(maxsize=256)
def _tags(names: tuple[str, ...]) -> _Tags:
    return _Tags(names)


def _body(text: str, opening: re.Match[str], tags: re.Pattern[str]) -> tuple[str, int]:
    """Return the text between an opening tag and its closing tag, and the end of the closing tag."""
    name = opening[2]
    if opening[1]:
        raise ParseError(f"</{name}> stands without <{name}>. Write <{name}>...</{name}>.")
    if opening[3]:
        return "", opening.end()
    closing = tags.search(text, opening.end())
    if closing is None:
        raise ParseError(f"<{name}> is never closed. End the call with </{name}>.", unclosed=True)
    if closing[0] != f"</{name}>":
        raise ParseError(f"{closing[0]} stands inside <{name}>. Close <{name}> first, or write &lt; for the <.")
    return text[opening.end() : closing.start()], closing.end()


def _arguments(name: str, body: str, strings: dict[str, str]) -> dict[str, Any]:
    return {strings[name]: _ENTITY.sub(_character, body.strip())} if name in strings else read_body(body, name)


def _write_call(call: ToolCall, strings: dict[str, str], tags: _Tags) -> str:
    if call.name in strings:
        body = _escape(text_argument(call, strings[call.name]), tags.in_string)
    else:
        body = tags.in_json.sub(r"\\u003c", write_body(call))
    return f"<{call.name}>{body}</{call.name}>"


def _escape(value: str, special: re.Pattern[str]) -> str:
    """Escape a string so that tags, entities and white space at its ends are read literally."""
    inner = value.strip()
    start = len(value) - len(value.lstrip())
    before, after = value[:start], value[start + len(inner) :]
    numbered = ["".join(f"&#{ord(character)};" for character in space) for space in (before, after)]
    return numbered[0] + special.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", inner) + numbered[1]


def _character(entity: re.Match[str]) -> str:
    if entity[3] is None:
        return "<" if entity[1] else "&"
    code = int(entity[3])
    usable = 0 < code < 0xD800 or 0xDFFF < code < 0x110000
    return chr(code) if usable else entity[0]
