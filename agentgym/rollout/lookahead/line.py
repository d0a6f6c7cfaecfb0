"""`PlayLine`: a line of play, from a reset to some turn. `Candidate`: the part of it that a value function sees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.dialects.base import Dialect
from agentgym.core.endings import AnyReason, Ending
from agentgym.core.engine.spaces import Action, finish_of, is_text, text_in
from agentgym.core.engine.steps import details_in
from agentgym.core.messages import Message, ToolCall, calls_of, text_of
from agentgym.core.policy import Seat
from agentgym.core.toolset import Toolset
from agentgym.core.trajectory import Turn
from agentgym.rollout.lookahead.voice import TurnSample, Voice
from agentgym.rollout.workers.base import EpisodeOpening, PlayedTurn


@dataclass(frozen=True, eq=False)
class PlayLine:
    """A line of play. It is immutable: another turn makes another line."""

    id: str
    """The number of its reset, then the name of each choice: `0.2.1`. Seeds derive from it."""
    opening: EpisodeOpening
    voice: Voice
    turns: tuple[Turn, ...] = ()
    reason: AnyReason | None = None
    """Why the episode has ended; `None` before its end."""
    counts: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    """Duration of its turns."""
    weight: float = 1.0
    """Estimated probability that the policy plays this line: the product of the shares of samples at each turn."""

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return self.reason is not None

    @property
    def is_answered(self) -> bool:
        """Whether the task ended the episode, rather than a limit or the policy giving up."""
        return self.reason is not None and self.reason.ending is Ending.TERMINATED

    def begins(self, other: PlayLine) -> bool:
        """Whether `other` is this line or continues it."""
        return other.id == self.id or other.id.startswith(f"{self.id}.")

    def after(self, number: str, sample: TurnSample, played: PlayedTurn, seconds: float) -> PlayLine:
        """Return this line with one more turn.

        Args:
            number: The name of the choice, unique among the choices here.
            sample: The turn of the policy.
            played: The result of the environment.
            seconds: Duration of the environment's part of the turn.
        """
        result, is_over = played.result, played.reason is not None
        finish = sample.finish or finish_of(sample.action)
        rewards = result.info["rewards"]
        turn = Turn(sample.action, result.observation, rewards, result.reward, sample.span, finish=finish)
        return replace(
            self,
            id=f"{self.id}.{number}",
            voice=sample.voice,
            turns=(*self.turns, turn),
            reason=played.reason,
            counts=result.info.get("counts", {}),
            details=details_in(result.info) if is_over else {},
            usage=added(self.usage, sample.usage),
            seconds=self.seconds + sample.seconds + seconds,
            weight=self.weight * sample.share,
        )


def added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of two usages."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A line of play as a value function sees it: the policy's view, without rewards."""

    id: str
    opening: Sequence[Message]
    turns: Sequence[tuple[Action | None, Sequence[Message]]]
    """Each action and its observation; the action is `None` where the policy ended the episode."""
    is_over: bool
    is_answered: bool
    """Whether the task ended the episode, rather than a limit or the policy giving up. The policy sees that too."""
    weight: float
    """Estimated probability that the policy plays this line (`PlayLine.weight`); 1 for an independent episode."""
    dialect: Dialect
    tools: Toolset
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Totals of the reward channels in `Value.channels`."""

    @property
    def conversation(self) -> str:
        """The conversation as text."""
        parts = [_message_text(message) for message in self.opening]
        for action, observation in self.turns:
            if action is not None:
                parts.append(f"[assistant] {_action_text(action)}")
            parts += map(_message_text, observation)
        return "\n".join(parts)

    def calls(self, turn: int = -1) -> tuple[ToolCall, ...]:
        """Return the calls of a turn; empty if it has no call, cannot be parsed or was cut off."""
        action = self.turns[turn][0] if self.turns else None
        if action is None or finish_of(action) == "length":
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


def candidate_of(line: PlayLine, channels: frozenset[str]) -> Candidate:
    """Return a line as seen by a value function with these reward channels."""
    opening = line.opening
    return Candidate(
        id=line.id,
        opening=opening.messages,
        turns=[(turn.move, turn.observation) for turn in line.turns],
        is_over=line.is_over,
        is_answered=line.is_answered,
        weight=line.weight,
        dialect=opening.dialect,
        tools=Seat.of(opening.tools, opening.dialect, 0).tools,
        rewards={name: _total(line, name) for name in channels},
    )


def _total(line: PlayLine, channel: str) -> float:
    if line.turns and channel not in line.turns[0].rewards:
        names = ", ".join(sorted(line.turns[0].rewards))
        raise UsageError(f"unknown reward channel {channel!r} to choose by; the channels are: {names}")
    return sum(turn.rewards[channel] for turn in line.turns)


def _message_text(message: Message) -> str:
    return f"[{message.get('role')}] {text_of(message)}"


def _action_text(action: Action) -> str:
    """Return the text of an action, followed by its calls."""
    calls = None if is_text(action) or isinstance(action, str) else action.get("tool_calls")
    return "\n".join(part for part in (text_in(action), json.dumps(calls, default=str) if calls else "") if part)
