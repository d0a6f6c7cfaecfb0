"""`Value`: estimates how good a line of play is, so that a search can choose. By default none sees the reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.cost import Cost


@dataclass(frozen=True)
class Asking:
    """What a value function needs besides the candidates."""

    key: str
    """Names the question; seeds follow from it."""
    cost: Cost
    """To count what the answer takes."""


class Value(Protocol):
    """A value function."""

    @property
    def name(self) -> str:
        """The name, with every setting that changes what is chosen."""
        ...

    @property
    def channels(self) -> frozenset[str]:
        """Reward channels that it sees."""
        ...

    @property
    def compares(self) -> bool:
        """Whether the scores depend on what else is scored; if not, a score is kept and not asked for again."""
        ...

    @property
    def is_oracle(self) -> bool:
        """Whether it sees what the policy cannot know, so that results are upper bounds."""
        ...

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return a score from 0 to 1 for each candidate, in order; `None` where there is none."""
        ...
