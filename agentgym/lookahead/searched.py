"""One try at one job by a search: the chosen line of play becomes the trajectory."""

from __future__ import annotations

import time
from dataclasses import replace

from agentgym.errors import BrokenTask
from agentgym.foreign.errors import describe
from agentgym.lookahead.cost import Cost
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Line
from agentgym.lookahead.places import Places
from agentgym.lookahead.strategy import Strategy
from agentgym.lookahead.value import Value
from agentgym.lookahead.watch import Watch
from agentgym.policy import Policy
from agentgym.rollout.episode import begun, reason_of
from agentgym.rollout.failures import Component, WorkerLost
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Workers
from agentgym.trajectory import Trajectory


class SearchedEpisode:
    """A search over the episodes of one job.

    Args:
        name: The recorded name of the policy with this search.
        strategy: What is tried in what order.
        value: Chooses.
        job: What is played.
        policy: Proposes the turns.
        factory: Makes the environments.
        limits: Limits of each turn; `episode_timeout_s` is that of the search.
        waits: The waits of the rollout.
        most: Largest number of environments to use at once.
    """

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        value: Value,
        job: Job,
        policy: Policy,
        factory: EnvFactory,
        limits: Limits,
        waits: Waits,
        most: int,
    ):
        self._strategy, self._value, self._job, self._policy, self._limits = strategy, value, job, policy, limits
        self._watch, self._most = Watch(job.id, waits), most
        self._cost = Cost(oracle=int(value.is_oracle))
        self._started = time.perf_counter()
        self._trajectory = begun(job, name, factory)

    async def run(self, workers: Workers) -> Trajectory:
        """Search, and return the chosen line. Whatever breaks raises."""
        job, limits, cost = self._job, self._limits, self._cost
        places = Places(workers, job, limits, self._most, cost, self._watch)
        try:
            await places.take()
            explorer = Explorer(job, self._policy, limits, places, cost, self._watch, self._value)
            line = await self._strategy.search(explorer)
        except BaseException:
            await places.discard()
            raise
        await places.close()
        cost.seconds = self._seconds
        return self._recorded(line)

    def failed(self, error: BaseException) -> Trajectory:
        """Return a trajectory without turns, marked as failed."""
        return replace(
            self._trajectory,
            reason=reason_of(error),
            component=self.component_of(error).value,
            error=describe(error),
            seconds=self._seconds,
            search=self._cost.to_dict(),
        )

    def component_of(self, error: BaseException) -> Component:
        """Return what failed."""
        if isinstance(error, BrokenTask):
            return Component.TASK
        return Component.WORKER if isinstance(error, WorkerLost) else self._watch.broken or Component.MAKING

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    def _recorded(self, line: Line) -> Trajectory:
        return replace(
            self._trajectory,
            opening=line.opening.messages,
            tools=line.opening.tools,
            turns=list(line.turns),
            reason=line.reason,
            details=dict(line.details),
            counts=dict(line.counts),
            usage=dict(line.usage),
            search=self._cost.to_dict(),
            tokens=line.voice.tokens,
            seconds=line.seconds,
        )
