"""Reads actions, and answers calls that did not run: chat endpoints refuse a conversation with an unanswered call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from agentgym.engine.spaces import Action
from agentgym.messages import Message, ToolCall, numbered_call_id, text_of, tool_result


def is_text(action: Action) -> bool:
    """Whether an action is text, which the dialect reads: a string, or a message without `tool_calls`."""
    return isinstance(action, str) or not action.get("tool_calls")


def text_in(action: Action) -> str:
    """Return the text of an action."""
    return action if isinstance(action, str) else text_of(action)


def action_message(action: Action) -> Message:
    """Return an action as an assistant message."""
    return {"role": "assistant", "content": action} if isinstance(action, str) else cast(Message, action)


def with_ids(calls: Sequence[ToolCall], before: int) -> list[ToolCall]:
    """Return calls with ids. Calls without one are numbered.

    Args:
        calls: The calls of one turn.
        before: Number of calls in the turns before.
    """
    numbered = enumerate(calls, start=before + 1)
    return [call if call.id else replace(call, id=numbered_call_id(number)) for number, call in numbered]


def refusals(action: Action, problem: str, before: int) -> list[Message]:
    """Return one tool message with `problem` for each call of a message whose calls did not run.

    Text has no calls, so the list is empty.

    Args:
        action: The action.
        problem: Why the calls did not run.
        before: Number of calls in the turns before.
    """
    calls = [] if isinstance(action, str) else list(_heads(action.get("tool_calls")))
    return [tool_result(call, problem) for call in with_ids(calls, before)]


def _heads(entries: Any) -> Iterator[ToolCall]:
    """Yield the name and id of each call, even if its arguments are unreadable."""
    for entry in entries if isinstance(entries, list | tuple) else ():
        if isinstance(entry, Mapping):
            function = entry.get("function")
            name = function.get("name") if isinstance(function, Mapping) else None
            yield ToolCall(name if isinstance(name, str) else "", {}, str(entry.get("id") or ""))
