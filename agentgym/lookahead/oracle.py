"""`Oracle`: the reward itself. What it chooses is pass@n: an upper bound, not a result of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.value import Asking
from agentgym.rewards import OUTCOME


@dataclass(frozen=True)
class Oracle:
    """Scores a line by its outcome, which the policy does not know."""

    name = "oracle"
    channels = frozenset({OUTCOME})
    compares = False
    is_oracle = True

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return each candidate's outcome."""
        return [candidate.rewards[OUTCOME] for candidate in candidates]
