"""`Cost`: what a whole search took, next to what the chosen line of play took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass
class Cost:
    """Counts over a whole search; what its value function used is included."""

    episodes: int = 0
    """Lines of play that came to an end."""
    turns: int = 0
    """Turns played in environments, each once, however many lines share it."""
    replayed_turns: int = 0
    """Turns played again to get back to a state."""
    policy_calls: int = 0
    """Turns asked of the policy."""
    value_calls: int = 0
    """Questions to the judge."""
    value_failures: int = 0
    """Answers of the judge that could not be read."""
    sampled_tokens: float = 0
    """Sampled tokens; behind an endpoint, those that it reports."""
    observed_tokens: float = 0
    """Tokens read but not sampled, each once, however many lines share it. Endpoints do not tell."""
    prompt_tokens: float = 0
    """Prompt tokens that an endpoint reports, over all requests."""
    cost: float = 0.0
    """In the currency of the endpoint's prices."""
    seconds: float = 0.0
    """Wall-clock duration of the search."""
    oracle: int = 0
    """1 if the reward itself chose: then the result is an upper bound."""

    def pay(self, usage: Mapping[str, float]) -> None:
        """Add what an endpoint reports."""
        self.sampled_tokens += usage.get("completion_tokens", 0)
        self.prompt_tokens += usage.get("prompt_tokens", 0)
        self.cost += usage.get("cost", 0.0)

    def to_dict(self) -> dict[str, float]:
        """Return what was counted; zeros are left out."""
        return {name: value for name, value in asdict(self).items() if value}
