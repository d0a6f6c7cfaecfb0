"""`SearchCost`: the cost of a whole search, recorded in addition to that of the chosen line of play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass
class SearchCost:
    """Counts over a whole search, including its value function."""

    episodes: int = 0
    """Lines of play that came to an end."""
    turns: int = 0
    """Turns played in environments; a turn shared by several lines counts once."""
    replayed_turns: int = 0
    """Turns replayed to restore a state."""
    policy_calls: int = 0
    """Turns requested from the policy."""
    value_calls: int = 0
    """Questions to the judge."""
    value_failures: int = 0
    """Answers of the judge that could not be read."""
    sampled_tokens: float = 0
    """Sampled tokens; for an endpoint, as it reports them."""
    observed_tokens: float = 0
    """Tokens read but not sampled; those shared by several lines count once. Endpoints do not report them."""
    prompt_tokens: float = 0
    """Prompt tokens that an endpoint reports, over all requests."""
    cost: float = 0.0
    """In the currency of the endpoint's prices."""
    seconds: float = 0.0
    """Wall-clock duration of the search."""
    oracle: int = 0
    """1 if the search chose by the reward itself: the result is then an upper bound."""

    def add(self, usage: Mapping[str, float]) -> None:
        """Add the usage that an endpoint reports."""
        self.sampled_tokens += usage.get("completion_tokens", 0)
        self.prompt_tokens += usage.get("prompt_tokens", 0)
        self.cost += usage.get("cost", 0.0)

    def to_dict(self) -> dict[str, float]:
        """Return the counts that are not zero."""
        return {name: value for name, value in asdict(self).items() if value}
