"""`Line`: a line of play, from a reset to some turn. Lines form a tree: what two of them share was played once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.endings import AnyReason, Ending
from agentgym.engine.steps import details_in
from agentgym.lookahead.voices import Said, Voice
from agentgym.rollout.workers.base import Opening, Played
from agentgym.trajectory import Turn


@dataclass(frozen=True, eq=False)
class Line:
    """A line of play. It never changes; playing on makes another one."""

    id: str
    """The number of its reset, then the name of each choice: `0.2.1`. Seeds follow from it."""
    opening: Opening
    voice: Voice
    turns: tuple[Turn, ...] = ()
    reason: AnyReason | None = None
    """Why it has ended; `None` while it goes on."""
    counts: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    """Seconds that its own turns took."""
    weight: float = 1.0
    """How likely the policy takes this line from its reset on: the product of the shares of samples at each turn."""

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return self.reason is not None

    @property
    def is_answered(self) -> bool:
        """Whether the task ended it, not a limit and not the policy giving up."""
        return self.reason is not None and self.reason.ending is Ending.TERMINATED

    def begins(self, other: Line) -> bool:
        """Whether `other` is this line, played on or not."""
        return other.id == self.id or other.id.startswith(f"{self.id}.")

    def after(self, number: str, said: Said, played: Played, seconds: float) -> Line:
        """Return this line with one more turn.

        Args:
            number: The name of the choice, different among the choices here.
            said: What the policy said.
            played: What the environment returned.
            seconds: How long the environment took.
        """
        result, is_over = played.result, played.reason is not None
        turn = Turn(said.action, result.observation, result.info["rewards"], result.reward, said.span)
        return replace(
            self,
            id=f"{self.id}.{number}",
            voice=said.voice,
            turns=(*self.turns, turn),
            reason=played.reason,
            counts=result.info.get("counts", {}),
            details=details_in(result.info) if is_over else {},
            usage=added(self.usage, said.usage),
            seconds=self.seconds + said.seconds + seconds,
            weight=self.weight * said.share,
        )


def added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of two usages."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
