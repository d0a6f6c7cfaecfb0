"""How a job becomes a trajectory: by one episode, or in another way, such as a search over several (`lookahead`)."""

from __future__ import annotations

from typing import Protocol

from agentgym.policy import Policy
from agentgym.rollout.episode import Episode
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Workers
from agentgym.trajectory import Trajectory


class Attempt(Protocol):
    """One try at one job."""

    async def run(self, workers: Workers) -> Trajectory:
        """Make the trajectory. Whatever breaks raises."""
        ...

    def failed(self, error: BaseException) -> Trajectory:
        """Return what is recorded of a try that broke."""
        ...

    def component_of(self, error: BaseException) -> Component:
        """Return what failed."""
        ...


class Method(Protocol):
    """Makes the tries at jobs."""

    @property
    def places(self) -> int:
        """Largest number of environments that one try uses at once."""
        ...

    def named(self, policy: str) -> str:
        """Return the name under which results of a policy are recorded: played in another way, it is another one."""
        ...

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> Attempt:
        """Return a try at a job, which uses at most `places` environments at once."""
        ...


class PlayedOnce:
    """The policy plays one episode."""

    places = 1

    def named(self, policy: str) -> str:
        """Return the policy's own name."""
        return policy

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> Attempt:
        """Return an episode."""
        return Episode(job, policy, factory, limits, waits)


PLAYED_ONCE = PlayedOnce()
