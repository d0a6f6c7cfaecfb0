"""Converts the return values of an author's hooks, tools and grader for messages and records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite, nan
from typing import Any

from pydantic_core import to_jsonable_python

from agentgym.counts import count_of
from agentgym.errors import InfrastructureError, ToolError, UsageError
from agentgym.messages import Message, Pictured, deep_copy, user, with_pictures
from agentgym.records.fields import is_messages
from agentgym.toolset import MAX_RESULT_CHARS, bounded


def as_text(answer: Any) -> str:
    """Return a hook's return value as message text."""
    return answer if isinstance(answer, str) else bounded(answer, MAX_RESULT_CHARS)


def as_message(answer: Any) -> Message:
    """Return a hook's return value, text or `Pictured`, as a user message."""
    text, pictures = without_pictures(answer)
    return with_pictures(user(as_text(text)), pictures)


def opening_messages(opening: Any) -> list[Message]:
    """Return the messages that open an episode: those that `start` returned, or one user message.

    Raises:
        UsageError: A list contains anything but chat messages, contains a system message, or ends with an assistant
            message.
    """
    if not isinstance(opening, list):
        return [as_message(opening)]
    if not opening or not is_messages(opening):
        raise UsageError("start() must return text, Pictured, or a list of chat messages with a role and a content")
    if any(message["role"] == "system" for message in opening):
        raise UsageError("start() returned a system message; set self.system_prompt instead")
    if opening[-1]["role"] == "assistant":
        raise UsageError("start() returned messages that end with the assistant's; the policy speaks next")
    return deep_copy(opening)  # the author may change them later


def turns_stated(turns: int) -> str:
    """Return the sentence of a system message that states the number of turns."""
    return f"You have {count_of(turns, 'turn')}, one for each message."


def without_pictures(result: Any) -> tuple[Any, tuple[bytes, ...]]:
    """Split a tool's result into text and pictures."""
    return (result.text, result.pictures) if isinstance(result, Pictured) else (result, ())


def message_of(mistake: ToolError) -> str:
    """Return the message of a mistake. Raises `InfrastructureError` if an author's subclass cannot produce it."""
    try:
        return str(mistake)
    except Exception as error:
        raise InfrastructureError(f"the message of a {type(mistake).__name__} cannot be read") from error


def as_data(value: Any) -> Any:
    """Return a value as JSON data, with a note in place of anything else.

    Bad details must not lose the episode.
    """
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=plain_data), allow_nan=False))
    except Exception:  # reading an author's object may raise anything
        return _no_data(value)


def plain_data(value: Any) -> Any:
    """Return NumPy numbers and arrays, and tensors, as plain data; anything else as a note."""
    plain = getattr(value, "tolist", None)
    return plain() if callable(plain) else _no_data(value)


def _no_data(value: Any) -> str:
    return f"({type(value).__name__}: no JSON data)"


def finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Return channel values as finite numbers. Others are refused, because they would corrupt every mean.

    Raises:
        InfrastructureError: A value is not a finite number.
    """
    numbers: dict[str, float] = {}
    for name, value in values.items():
        try:
            numbers[name] = nan if isinstance(value, str | bytes) else float(value)
        except (TypeError, ValueError, OverflowError):
            numbers[name] = nan
        if not isfinite(numbers[name]):
            raise InfrastructureError(f"reward channel {name!r} was given {value!r}, which is not a finite number")
    return numbers
