"""The dialect interface: how a model writes tool calls as text and reads their results.

Dialects are stateless and total: `parse` never raises, whatever the text; unreadable text is reported in
`Parsed.error`, a sentence for the model. `parse(render(text, calls))` returns the same `text` and `calls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym.core.messages import Message, ToolCall
from agentgym.core.toolset import Toolset

MAX_ACTION_CHARS = 200_000
"""Longer actions are rejected without parsing."""


@dataclass(frozen=True)
class Parsed:
    """The result of parsing a model's text."""

    text: str = ""
    """The text besides the calls (reasoning, prose)."""
    calls: tuple[ToolCall, ...] = ()
    error: str | None = None
    """A message for the model if the action could not be read (`calls` is then empty); otherwise `None`."""
    unclosed: bool = False
    """Whether the error is an unclosed construct, as in a truncated generation."""


class Dialect(Protocol):
    """A text format for tool calls and their results."""

    name: str

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return the part of a system prompt that explains how to call these tools, at most `max_calls` in a turn."""
        ...

    def parse(self, text: str, tools: Toolset) -> Parsed:
        """Parse a model's text. Never raises. The toolset, not the dialect, validates names and arguments."""
        ...

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        """Write an assistant turn. Raises `ValueError` for a turn that the dialect cannot express."""
        ...

    def result(self, call: ToolCall, content: str) -> Message:
        """Return the message that shows the model the result (or the error) of a call."""
        ...

    def problem(self, content: str) -> Message:
        """Return the message that shows the model why its action could not be read."""
        ...
