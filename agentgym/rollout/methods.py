"""How a job becomes a trajectory: by one episode, or by another method, such as a search (`lookahead`)."""

from __future__ import annotations

from typing import Protocol

from agentgym.core.policy import Policy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout.episode import Episode
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Workers


class JobAttempt(Protocol):
    """One attempt at one job."""

    async def run(self, workers: Workers) -> Trajectory:
        """Make the trajectory. Raises the exception of whatever failed."""
        ...

    def failed(self, error: BaseException) -> Trajectory:
        """Return the trajectory to record if the attempt failed."""
        ...

    def component_of(self, error: BaseException) -> Component:
        """Return the component that failed."""
        ...


class Method(Protocol):
    """Makes attempts at jobs."""

    @property
    def places(self) -> int:
        """Largest number of environments that one attempt uses at once."""
        ...

    def named(self, policy: str) -> str:
        """Return the name under which a policy's results are recorded; it includes the method."""
        ...

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> JobAttempt:
        """Return an attempt at a job, which uses at most `places` environments at once."""
        ...


class PlayedOnce:
    """The policy plays one episode."""

    places = 1

    def named(self, policy: str) -> str:
        """Return the policy's own name."""
        return policy

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> JobAttempt:
        """Return an episode."""
        return Episode(job, policy, factory, limits, waits)


PLAYED_ONCE = PlayedOnce()
