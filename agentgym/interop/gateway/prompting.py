"""Puts the conversations of agents into the form that the model was trained on: tools, calls and results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.dialects import Dialect, is_template
from agentgym.errors import UsageError
from agentgym.interop.gateway.errors import Refused
from agentgym.messages import Message, ToolCall, calls_of, shown_pictures, system, text_of, with_pictures
from agentgym.seat import Seat


@dataclass
class Prompting:
    """The tools of one conversation, and how a dialect writes them.

    Args:
        dialect: How the model writes calls.
        schemas: Schemas of the tools.
        max_calls: Calls that the model is told it may make in a turn.

    Raises:
        Refused: A tool's name or schema cannot be used.
    """

    dialect: Dialect
    schemas: Sequence[Mapping[str, Any]]
    max_calls: int = 1
    _called: dict[str, ToolCall] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.tools = Seat.of(self.schemas, self.dialect, 0, self.max_calls).tools
        except UsageError as error:
            raise Refused(str(error)) from error

    def opening(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages that begin a conversation, after the dialect's explanation of the tools."""
        told = self.dialect.instructions(self.tools, self.max_calls) if len(self.tools) else ""
        written = self.written(messages)
        if not told:
            return written
        if written[0].get("role") != "system":
            return [system(told), *written]
        first = text_of(written[0])
        return [system(f"{first}\n\n{told}" if first else told), *written[1:]]

    def written(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with calls and results as the dialect writes them."""
        return [self._written(message) for message in messages]

    def note(self, calls: Sequence[ToolCall]) -> None:
        """Remember calls, whose results will name their ids."""
        self._called |= {call.id: call for call in calls}

    def note_all(self, messages: Sequence[Message]) -> None:
        """Remember the calls in messages by the ids that the agent has given them."""
        for message in messages:
            self.note(calls_of(message))

    def _written(self, message: Message) -> Message:
        if message.get("role") == "tool":
            call = self._called.get(message.get("tool_call_id", ""), ToolCall("tool"))
            return with_pictures(self.dialect.result(call, text_of(message)), shown_pictures([message]))
        calls = calls_of(message)
        self.note(calls)
        if not calls or is_template(self.dialect.name):
            return message
        return {"role": "assistant", "content": self._rendered(text_of(message), calls)}

    def _rendered(self, text: str, calls: Sequence[ToolCall]) -> str:
        try:
            return self.dialect.render(text, calls, self.tools)
        except ValueError as error:
            raise Refused(f"an earlier message cannot be written as the model writes its own: {error}") from error
