"""Writes the opening and the turns of an episode as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym.cards.markdown import block, code, folded, number
from agentgym.checks.play import Episode
from agentgym.engine.steps import StepResult
from agentgym.messages import text_of
from agentgym.terminal.printing import plain

_MOST_CHARS = {"system": 20_000}
"""How much of a message is shown, by role."""
_OTHER_CHARS = 1500
_MOST_TURNS = 8
_FOLDED = "System message: instructions and tools"


def opening(episode: Episode) -> str:
    """Return the messages that an episode begins with, the instructions folded."""
    instructions = [message for message in episode.opening if message.get("role") == "system"]
    others = [message for message in episode.opening if message not in instructions]
    shown = [_messages(others)] if others else []
    return "\n\n".join([*(folded(_FOLDED, _messages([message])) for message in instructions), *shown])


def turns(episode: Episode) -> str:
    """Return the turns of an episode, each with what its channels say and what it is paid."""
    pairs = list(zip(episode.actions, episode.results, strict=True))
    parts = [_turn(number, action, result) for number, (action, result) in enumerate(pairs[:_MOST_TURNS], 1)]
    if len(pairs) > _MOST_TURNS:
        parts.append(f"… and {len(pairs) - _MOST_TURNS} more turns.")
    parts.append(f"The episode ended as {code(episode.reason)} and was paid {number(episode.reward, 3)}.")
    return "\n\n".join(parts)


def _turn(place: int, action: Any, result: StepResult) -> str:
    said: Mapping[str, Any] = {"role": "assistant", "content": action} if isinstance(action, str) else action
    earned = {name: value for name, value in result.info["rewards"].items() if value}
    channels = "".join(f", {code(name)} {number(value, 3)}" for name, value in earned.items())
    return f"**Turn {place}**: paid {number(result.reward, 3)}{channels}\n\n{_messages([said, *result.observation])}"


def _messages(messages: Iterable[Mapping[str, Any]]) -> str:
    return block("\n\n".join(f"[{message.get('role')}]\n{_content(message)}" for message in messages))


def _content(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    written = [json.dumps(call.get("function", call), ensure_ascii=False) for call in calls]
    return "\n".join(
        [plain(text_of(message), _MOST_CHARS.get(str(message.get("role")), _OTHER_CHARS)), *written]
    ).strip()
