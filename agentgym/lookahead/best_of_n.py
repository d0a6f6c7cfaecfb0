"""`BestOfN`: n whole episodes from the same reset, of which one is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Line
from agentgym.lookahead.strategy import best, check_from_1, settings_of
from agentgym.lookahead.together import together


@dataclass(frozen=True)
class BestOfN:
    """Plays n episodes and chooses one. It restores no state, so it works everywhere."""

    n: int
    """Number of episodes."""

    def __post_init__(self) -> None:
        check_from_1(self, "n")

    @property
    def name(self) -> str:
        """The name, with all settings."""
        return f"best-of-n:{settings_of(self)}"

    @property
    def places(self) -> int:
        """All episodes run at once."""
        return self.n

    async def search(self, explorer: Explorer) -> Line:
        """Return the best episode."""
        ends = await together(explorer.episode(number) for number in range(self.n))
        return best(ends, await explorer.scores(ends))
