"""`Candidate`: what a value function sees of a line of play: what the policy sees of it, and no reward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.dialects.base import Dialect
from agentgym.engine.actions import is_text, text_in
from agentgym.engine.spaces import Action
from agentgym.errors import ToolError, UsageError
from agentgym.lookahead.line import Line
from agentgym.messages import Message, ToolCall, calls_of, text_of
from agentgym.seat import Seat
from agentgym.toolset import Toolset


@dataclass(frozen=True, eq=False)
class Candidate:
    """A line of play, as far as a value function may see it."""

    id: str
    opening: Sequence[Message]
    turns: Sequence[tuple[Action | None, Sequence[Message]]]
    """Each action and its observation; the action is `None` where the policy ended the episode."""
    is_over: bool
    is_answered: bool
    """Whether the task ended the episode, not a limit and not the policy giving up. The policy sees that too."""
    weight: float
    """How likely the policy takes this line, as far as its samples tell; 1 for an episode played by itself."""
    dialect: Dialect
    tools: Toolset
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Totals of those reward channels that the value function asks for (`Value.channels`)."""

    @property
    def conversation(self) -> str:
        """The conversation as text."""
        parts = [_shown(message) for message in self.opening]
        for action, observation in self.turns:
            if action is not None:
                parts.append(f"[assistant] {_written(action)}")
            parts += map(_shown, observation)
        return "\n".join(parts)

    def calls(self, turn: int = -1) -> tuple[ToolCall, ...]:
        """Return the calls of a turn; none if it has none or cannot be read."""
        action = self.turns[turn][0] if self.turns else None
        if action is None:
            return ()
        try:
            if isinstance(action, str) or is_text(action):
                return self.dialect.parse(text_in(action), self.tools).calls
            return calls_of(action)
        except ToolError:
            return ()

    def text(self, turn: int = -1) -> str:
        """Return the text of a turn's action."""
        action = self.turns[turn][0] if self.turns else None
        return "" if action is None else text_in(action)


def candidate_of(line: Line, channels: frozenset[str]) -> Candidate:
    """Return what a value function that asks for these channels sees of a line."""
    opening = line.opening
    return Candidate(
        id=line.id,
        opening=opening.messages,
        turns=[(turn.action, turn.observation) for turn in line.turns],
        is_over=line.is_over,
        is_answered=line.is_answered,
        weight=line.weight,
        dialect=opening.dialect,
        tools=Seat.of(opening.tools, opening.dialect, 0).tools,
        rewards={name: _total(line, name) for name in channels},
    )


def _total(line: Line, channel: str) -> float:
    if line.turns and channel not in line.turns[0].rewards:
        known = ", ".join(sorted(line.turns[0].rewards))
        raise UsageError(f"there is no reward channel {channel!r} to choose by; there are: {known}")
    return sum(turn.rewards[channel] for turn in line.turns)


def _shown(message: Message) -> str:
    return f"[{message.get('role')}] {text_of(message)}"


def _written(action: Action) -> str:
    """Return the text of an action, and the calls beside it."""
    calls = None if is_text(action) or isinstance(action, str) else action.get("tool_calls")
    return "\n".join(part for part in (text_in(action), json.dumps(calls, default=str) if calls else "") if part)
