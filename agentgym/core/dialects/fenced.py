"""The fenced dialect: a Markdown code block is a call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.base.strict_json import excerpt, skip_space
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.text import (
    ParseError,
    TextDialect,
    allowed,
    before_call,
    first_outside_reasoning,
    listing,
    read_body,
    set_apart,
    text_argument,
    text_parameters,
    write_body,
)
from agentgym.core.messages import Message, ToolCall, user
from agentgym.core.toolset import Toolset

_FENCE = re.compile(r"^ {0,3}(`{3,}+)([^`\n]*+)$", re.MULTILINE)
_BEGINNING = re.compile(rf"^ {{0,3}}`{{0,2}}\Z|{_FENCE.pattern}", re.MULTILINE)
_MARKS = re.compile(rf"<think>|{_FENCE.pattern}", re.MULTILINE)

_INSTRUCTIONS = """# Tools

Call a tool with a fenced code block whose first line names it. You may write text before it. End your message after \
the block. If the block itself holds ```, use a longer fence.

{tools}"""


class Fenced(TextDialect):
    """Fenced blocks: the info string's first word names the tool; the body is its string, or a JSON object.

    Every block is a call. If its first word is not a tool (a language, or missing) and exactly one tool takes a single
    string, the block calls that tool; otherwise it calls an unknown tool. `render` uses a fence longer than any run of
    backticks in the body. It raises `ValueError` for text that contains a block, and for strings that contain
    `</think>` when no reasoning precedes the call.
    """

    name = "fenced"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """List the tools with an example block for each."""
        strings = text_parameters(tools)
        listings = []
        for tool in tools:
            body = strings.get(tool.name) or ("{...}" if tool.parameters.get("properties") else "")
            listings.append(listing(tool, _block(tool.name, body)))
        return _INSTRUCTIONS.format(tools="\n".join(listings)) + allowed(max_calls, "blocks")

    def result(self, call: ToolCall, content: str) -> Message:
        """Return the result in a block called `output`, as a user message."""
        return user(_block("output", content))

    def _read(self, text: str, tools: Toolset) -> Parsed:
        first = first_outside_reasoning(text, _MARKS)
        if first is None:
            return Parsed(text)
        strings = text_parameters(tools)
        calls, at = [], first.start()
        while at < len(text):
            opening = _FENCE.match(text, at)
            if opening is None:
                raise ParseError(f"There is text after the block: {excerpt(text, at)}. End your message after it.")
            body, end = _body(text, opening)
            calls.append(_call(opening[2].split()[:1], body, strings, tools))
            at = _next_line(text, end)
        return Parsed(before_call(text, first.start()), tuple(calls))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str]:
        return _BEGINNING

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        strings = text_parameters(tools)
        blocks = [
            _block(call.name, text_argument(call, strings[call.name]) if call.name in strings else write_body(call))
            for call in calls
        ]
        return set_apart(text, "\n".join(blocks)) if calls else text


def _block(info: str, body: str) -> str:
    longest = max(map(len, re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{body}\n{fence}"


def _body(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """Return the text between an opening fence and its closing fence, and the end of the closing fence."""
    for fence in _FENCE.finditer(text, opening.end()):
        if len(fence[1]) < len(opening[1]):
            continue
        if fence[2].strip():
            raise ParseError(
                f"The block {fence[0].strip()[:60]!r} starts inside {opening[0].strip()[:60]!r}. Close that with "
                f"{opening[1][:60]} first, or give it a longer fence."
            )
        return text[opening.end() + 1 : fence.start()].removesuffix("\n"), fence.end()
    raise ParseError(
        f"The block {opening[0].strip()[:60]!r} is never closed. End it with a line of ```.", unclosed=True
    )


def _call(info: list[str], body: str, strings: dict[str, str], tools: Toolset) -> ToolCall:
    name = info[0] if info else ""
    if name not in tools:
        if _holds_call(body, tools):
            raise ParseError(f"The block names no tool. Write one of {', '.join(tools.names)} after the ```.")
        if len(strings) != 1:
            if not name:
                raise ParseError(f"The block names no tool. Write one of {', '.join(tools.names)} after the ```.")
            return ToolCall(name)
        name = next(iter(strings))
    return ToolCall(name, {strings[name]: body} if name in strings else read_body(body, name))


def _holds_call(body: str, tools: Toolset) -> bool:
    """Whether a block holds a call in another form, as JSON or in Python, rather than the text of one."""
    either = "|".join(map(re.escape, tools.names))
    named = rf"""(?:name|tool|tool_name|function)["']\s*:\s*["'](?:functions\.)?(?:{either})["']"""
    wrapped = r"""(?:tool_calls|function)["']\s*:\s*[\[{]|type["']\s*:\s*["']function["']"""
    in_json = rf"""\{{\s*["'](?:{named}|{wrapped})"""
    return re.match(rf"[\s\[]*+(?:{in_json}|(?:print\()?(?:{either})\()", body) is not None


def _next_line(text: str, at: int) -> int:
    """Return the start of the next non-blank line, where a fence may begin."""
    end = skip_space(text, at)
    return end if end == len(text) else text.rfind("\n", 0, end) + 1
