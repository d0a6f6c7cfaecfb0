"""`Search`: a way to make trajectories with a policy by looking ahead, for `RolloutEngine` and `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.lookahead.majority import Majority
from agentgym.lookahead.searched import SearchedEpisode
from agentgym.lookahead.strategy import Strategy
from agentgym.lookahead.value import Value
from agentgym.policy import Policy
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits


@dataclass(frozen=True)
class Search:
    """A strategy and what it chooses by."""

    strategy: Strategy
    """`BestOfN`, `Beam`, `Mcts`, or one of your own."""
    value: Value = field(default_factory=Majority)
    """`Majority`, `Signals`, `Judge`, one of your own, or, for an upper bound, `Oracle`."""

    @property
    def name(self) -> str:
        """The search as it is typed after `--search`."""
        return f"{self.strategy.name},value={self.value.name}"

    @property
    def places(self) -> int:
        """Largest number of environments that one search uses at once."""
        return self.strategy.places

    def named(self, policy: str) -> str:
        """Return the name under which results of a policy with this search are recorded."""
        return f"{policy} with {self.name}"

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> SearchedEpisode:
        """Return a search for one job."""
        name = self.named(policy.name)
        return SearchedEpisode(name, self.strategy, self.value, job, policy, factory, limits, waits, places)
