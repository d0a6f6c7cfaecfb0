"""What a dialect is: the way a model writes tool calls as text, and reads their results.

Dialects are stateless and total: `parse` never raises, whatever the text; what cannot be read becomes `Parsed.error`,
a sentence for the model. `parse(render(text, calls))` gives back `text` and `calls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym.messages import Message, ToolCall
from agentgym.toolset import Toolset

MAX_ACTION_CHARS = 200_000
"""Longer actions are refused unread."""


@dataclass(frozen=True)
class Parsed:
    """What a model's text was found to say."""

    text: str = ""
    """What it said besides the calls (reasoning, prose)."""
    calls: tuple[ToolCall, ...] = ()
    error: str | None = None
    """Why the action could not be read, told to the model; `None` if it could. Then `calls` is empty."""
    unclosed: bool = False
    """Whether the error is that something begun was never ended: as in a generation that was cut off."""


class Dialect(Protocol):
    """One way of writing tool calls."""

    name: str

    def instructions(self, tools: Toolset) -> str:
        """Return what a system prompt must say so that a model can call these tools in this dialect."""
        ...

    def parse(self, text: str, tools: Toolset) -> Parsed:
        """Read a model's text. Names and arguments are not checked here: the toolset does that. Never raises."""
        ...

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        """Write an assistant turn. Raises `ValueError` for what the dialect cannot express."""
        ...

    def result(self, call: ToolCall, content: str) -> Message:
        """Return the message that shows the model the result (or the error) of a call."""
        ...

    def problem(self, content: str) -> Message:
        """Return the message that shows the model why its action could not be read."""
        ...
