"""Gymnasium spaces of text environments: actions are text or an assistant message, observations lists of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from gymnasium.spaces import Space

from agentgym.core.dialects.base import Dialect
from agentgym.core.messages import Message, ToolCall, numbered_call_id, text_of, tool_result
from agentgym.core.toolset import Tool, Toolset

Action = str | Mapping[str, Any]
"""A policy's output: text, or an assistant message with `tool_calls`."""

Finish = Literal["stop", "length", "time"]
"""How a policy's turn ended: by itself, at its token limit, or at its time limit."""

CUT_REASONS = frozenset(
    {
        "length",  # OpenAI, vLLM, Hugging Face
        "max_tokens",  # Anthropic, Gemini, Inspect
        "max_output_tokens",  # OpenAI's Responses
        "model_length",  # Mistral
        "model_context_window_exceeded",  # Anthropic, Zhipu
    }
)
"""The names, in lower case, that vendors give to the reason that a turn reached its token limit."""

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_WORDS = ("a", "b", "name", "id", "0", "1", "42", "-7", "select", "", "Zoë", "it's", '"', "{}", "\n")


class MessagesSpace(Space[list[Message]]):
    """Lists of chat messages."""

    def contains(self, x: Any) -> bool:
        """Whether `x` is a list of messages with a known role and a content."""
        return isinstance(x, list) and all(
            isinstance(message, dict)
            and message.get("role") in _ROLES
            and isinstance(message.get("content"), str | list)
            for message in x
        )

    def sample(self, mask: Any = None, probability: Any = None) -> list[Message]:
        """Return a user message of random words."""
        count = int(self.np_random.integers(1, 8))
        words = [_WORDS[int(self.np_random.integers(len(_WORDS)))] for _ in range(count)]
        return [{"role": "user", "content": " ".join(words)}]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesSpace)

    __hash__ = None  # type: ignore[assignment]


class ActionSpace(Space[Action]):
    """Texts and assistant messages. Samples are calls of random tools with random arguments of the right types."""

    def __init__(self, tools: Toolset, dialect: Dialect, seed: int | None = None):
        super().__init__(seed=seed)
        self._tools, self._dialect = tools, dialect

    def contains(self, x: Any) -> bool:
        """Whether `x` is text or an assistant message."""
        return isinstance(x, str) or (isinstance(x, Mapping) and x.get("role") == "assistant")

    def sample(self, mask: Any = None, probability: Any = None) -> Action:
        """Return a random call in the environment's dialect, or a number in an environment without tools."""
        tools = list(self._tools)
        if not tools:
            return str(int(self.np_random.integers(0, 101)))
        tool = tools[int(self.np_random.integers(len(tools)))]
        return self._dialect.render("", [ToolCall(tool.name, self.sample_arguments(tool))], self._tools)

    def sample_arguments(self, tool: Tool) -> dict[str, Any]:
        """Return random arguments for a tool, of the right types."""
        properties = tool.parameters.get("properties", {})
        return {name: self._value(schema) for name, schema in properties.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace) and self._tools.names == other._tools.names

    __hash__ = None  # type: ignore[assignment]

    def _value(self, schema: Mapping[str, Any]) -> Any:
        """Return a random value of a JSON schema type."""
        if "enum" in schema:
            return schema["enum"][int(self.np_random.integers(len(schema["enum"])))]
        if "anyOf" in schema:
            return self._value(schema["anyOf"][0])
        kind = schema.get("type")
        if kind == "integer":
            return int(self.np_random.integers(-10, 101))
        if kind == "number":
            return float(round(self.np_random.normal() * 10, 3))
        if kind == "boolean":
            return bool(self.np_random.integers(2))
        if kind == "array":
            return [self._value(schema.get("items", {})) for _ in range(int(self.np_random.integers(3)))]
        if kind == "object":
            return {}
        return _WORDS[int(self.np_random.integers(len(_WORDS)))]


def is_text(action: Action) -> bool:
    """Whether an action is text, which the dialect reads: a string, or a message without `tool_calls`."""
    return isinstance(action, str) or not action.get("tool_calls")


def text_in(action: Action) -> str:
    """Return the text of an action."""
    return action if isinstance(action, str) else text_of(action)


def action_message(action: Action) -> Message:
    """Return an action as an assistant message."""
    return {"role": "assistant", "content": action} if isinstance(action, str) else cast(Message, action)


def finished(action: Action, reason: object, tokens: int | None = None) -> Action:
    """Return an action, marked as cut off if its model stopped at a token limit.

    An environment runs and grades nothing in such an action, not even calls that were complete before the cut: the rest
    of the turn might have corrected them.

    Args:
        action: The model's action.
        reason: Why the model stopped, such as `"length"` or `"stop"`; see `CUT_REASONS`.
        tokens: The number of tokens of the turn, if known.
    """
    if str(reason).lower() not in CUT_REASONS:
        return action
    message = dict(action_message(action))
    return {**message, "finish_reason": "length"} | ({} if tokens is None else {"completion_tokens": tokens})


def as_played(action: Action | None, finish: Finish | None, span: tuple[int, int] | None) -> Action | None:
    """Return the action of a turn as an environment plays it: marked as cut off if it reached its token limit.

    Args:
        action: The action, if the policy answered.
        finish: How the turn ended.
        span: Position of the turn's tokens, `[start, end)`.
    """
    return None if action is None else finished(action, finish, None if span is None else span[1] - span[0])


def finish_of(action: Action | None) -> Finish | None:
    """Return how a turn ended, as an assistant message's `finish_reason` says; `None` without a turn."""
    if action is None:
        return None
    reason = None if isinstance(action, str) else action.get("finish_reason")
    return "length" if str(reason).lower() in CUT_REASONS else "stop"


def cut_off_problem(action: Action) -> str:
    """Return the message for the model whose turn was cut off."""
    tokens = None if isinstance(action, str) else action.get("completion_tokens")
    where = f"at its limit of {tokens} tokens" if isinstance(tokens, int) and tokens else "at its limit of tokens"
    return f"Your message was cut off {where}, so nothing in it was run. Write a shorter message."


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
