"""`WithFeedback`: a rollout method with a simulated user who comments on the turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from agentgym.choices import one_of
from agentgym.feedback.adviser import Adviser, When
from agentgym.feedback.simulator import Simulator
from agentgym.policy import Policy
from agentgym.rollout.episode import Episode
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits


@dataclass(frozen=True)
class WithFeedback:
    """Adds feedback to observations. Trajectories record it, so they replay without the simulator."""

    simulator: Simulator
    when: When = "turn"

    places = 1

    def __post_init__(self) -> None:
        one_of("when", self.when, get_args(When))

    def named(self, policy: str) -> str:
        """Return the name under which results of a policy with this feedback are recorded."""
        return f"{policy} with feedback: {self.simulator.name},when={self.when}"

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> Episode:
        """Play an episode with feedback."""
        adviser = Adviser(self.simulator, self.when, job)
        return Episode(job, policy, factory, limits, waits, name=self.named(policy.name), listener=adviser)
