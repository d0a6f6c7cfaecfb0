"""Runs jobs on the current event loop: one coroutine per trajectory, no barrier between turns.

If something around the model fails, the episode is retried on a fresh environment. If that keeps failing, it is
recorded as failed. Such a failure never becomes an observation or a reward.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from agentgym.base.errors import BrokenTask, InfrastructureError, ScriptFailed, UsageError
from agentgym.core.foreign import caught, contained_tasks, describe, ends_work
from agentgym.core.policy import Policy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout.failures import Component, Failures, Outage, Tally, WorkerLost
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.methods import PLAYED_ONCE, JobAttempt, Method
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool, is_callers_mistake

_log = logging.getLogger(__name__)

_END = object()
"""Marks the end of the jobs."""

Events = asyncio.Queue[asyncio.Task[Trajectory] | None]
"""The tasks of finished jobs; `None` if jobs have arrived."""

LOST_WORKERS = 10
"""Retries of an episode because of a dead worker, on top of its other retries."""

SUSPECT = 2
"""After losing this many workers, an episode runs alone in its worker, in case it is what kills them."""


class JobSlots:
    """Bounds shared by all iterations of an engine: the environments in use, and one running job per id."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """Ids of the running and waiting jobs; policies identify conversations by them."""
        self._asking = asyncio.Lock()
        self._places = 0
        self._free = asyncio.Semaphore(0)

    async def places(self, ask: Callable[[], Awaitable[int]], per_job: int) -> int:
        """Return how many environments may be in use, if each job uses up to `per_job`.

        Calls `ask`, which makes an environment, only while no job runs.
        """
        async with self._asking:
            if not self.ids and (places := await ask()) != self._places:
                self._places, self._free = places, asyncio.Semaphore(max(1, places // per_job))
        return self._places

    @property
    def is_full(self) -> bool:
        """Whether a job would have to wait for another one, of this or any iteration."""
        return self._free.locked()

    async def enter(self, job: Job) -> Callable[[object], None]:
        """Wait until a job can run; return the callback for the end of its task.

        Raises:
            UsageError: Another job with the same id runs.
        """
        if job.id in self.ids:
            raise UsageError(f"two jobs are called {job.id!r}; give them different attempt numbers")
        self.ids.add(job.id)
        free = self._free
        try:
            await free.acquire()
        except BaseException:
            self.ids.discard(job.id)
            raise
        return lambda _: free.release()


@dataclass(frozen=True)
class Rollout:
    """The policy, the environments and the settings shared by the jobs of a rollout."""

    policy: Policy
    factory: EnvFactory
    workers: Workers
    limits: Limits = field(default_factory=Limits)
    failures: Failures = field(default_factory=Failures)
    tally: Tally = field(default_factory=Tally)
    waits: Waits = field(default_factory=Waits)
    method: Method = PLAYED_ONCE
    slots: JobSlots = field(default_factory=JobSlots)

    async def played(
        self, jobs: Iterable[Job | None], events: Events | None = None
    ) -> AsyncGenerator[tuple[Job, Trajectory]]:
        """Run all jobs and yield each with its trajectory as they finish, in no particular order.

        Any exception of an environment or a policy, even `SystemExit`, fails one try at one episode. Only
        `UsageError`, `TaskError` and the errors that `failures` raises propagate. A `BrokenTask` propagates only if
        the limits are strict; otherwise it fails the episodes of that task without a retry. So does a `ScriptFailed`.
        Close the generator (`contextlib.aclosing`) to cancel the remaining episodes.

        Args:
            jobs: The jobs to run; consumed as slots become free, so the iterable may be endless. `None` means that
                there is no job yet.
            events: Receives the tasks of finished jobs. Put `None` into it when there are jobs again.

        Raises:
            UsageError: Two jobs with the same id would run at once.
        """
        waiting = iter(jobs)
        running: dict[asyncio.Task[Trajectory], Job] = {}
        events = asyncio.Queue() if events is None else events
        try:
            places = await self.slots.places(self._places, self.method.places)
            at_once = max(1, places // self.method.places)
            with contained_tasks():
                while True:
                    job = None
                    # Without a running job, wait for room. Otherwise, one of the running jobs will make room.
                    while len(running) < at_once and not (running and self.slots.is_full):
                        if (job := next(waiting, _END)) is _END or job is None:
                            break
                        if not isinstance(job, Job):
                            raise UsageError(f"a rollout plays jobs and groups, not a {type(job).__name__}")
                        leave = await self.slots.enter(job)
                        task = asyncio.create_task(self._tries(job, min(places, self.method.places)))
                        running[task] = job
                        task.add_done_callback(leave)
                        task.add_done_callback(events.put_nowait)
                    if not running and job is _END:
                        return
                    if (done := await events.get()) is None:
                        continue
                    job = running.pop(done)
                    self.slots.ids.discard(job.id)
                    yield job, done.result()
        finally:
            for task in running:
                task.cancel()
            # Collect all results, also of finished tasks: asyncio would report an error that is never retrieved.
            await asyncio.gather(*running, return_exceptions=True)
            self.slots.ids.difference_update(job.id for job in running.values())

    async def _places(self) -> int:
        """Return how many environments may be in use; makes one to find out."""
        self.waits.begin("the rollout", Component.MAKING.value, self.factory.env_id)
        try:
            return await self.workers.at_once(self.limits.max_in_flight, self.limits.reset_timeout_s)
        finally:
            self.waits.end("the rollout")

    async def _tries(self, job: Job, places: int) -> Trajectory:
        """Run a job; retry it on a fresh environment if something around the model breaks."""
        draw = random.Random(job.id)
        failures = lost = 0
        while True:
            episode = self.method.attempt(job, self.policy, self.factory, self.limits, self.waits, places)
            outcome = await _try(episode, self.workers if lost < SUSPECT else self.workers.isolated())
            if isinstance(outcome, Trajectory):
                self.tally.succeeded()
                return outcome
            is_broken = isinstance(outcome, BrokenTask) and not self.limits.strict
            is_final = is_broken or isinstance(outcome, ScriptFailed)
            if not is_final and (
                is_callers_mistake(outcome) or (isinstance(outcome, KeyboardInterrupt) and ends_work(outcome, None))
            ):
                raise outcome
            self._count(episode.component_of(outcome), outcome)
            if isinstance(outcome, WorkerLost) and lost < LOST_WORKERS:
                lost += 1
            else:
                failures += 1
            if is_final or failures > self.limits.retries:
                return self._given_up(episode.failed(outcome))
            # Lost workers do not lengthen the wait: the next try has another worker.
            await asyncio.sleep(self.failures.backoff.wait_s(max(failures, 1), draw))

    def _count(self, component: Component, error: BaseException) -> None:
        """Count a failed try. At an outage, log what the other trajectories wait for."""
        try:
            self.tally.fails(component, describe(error))
        except Outage:
            _log.error("an outage stops the rollout; at that time:\n%s", self.waits.report())
            raise

    def _given_up(self, failed: Trajectory) -> Trajectory:
        if self.failures.fail_fast:
            raise InfrastructureError(f"{failed.id} failed in {failed.component}: {failed.error}")
        return failed


async def rollouts(
    jobs: Iterable[Job],
    policy: Policy,
    factory: EnvFactory,
    limits: Limits | None = None,
    workers: Workers | None = None,
    method: Method = PLAYED_ONCE,
) -> AsyncGenerator[Trajectory]:
    """Run all jobs on the current event loop and yield trajectories as they finish (see `Rollout.played`).

    Args:
        jobs: The jobs to run.
        policy: Plays every episode.
        factory: Makes the environments; recorded in the trajectories so that they can be replayed.
        limits: Limits of the rollout.
        workers: Hold the environments between calls; by default threads do, and close the environments at the end.
        method: How a trajectory is made.
    """
    used = LocalWorkers(EnvPool(factory)) if workers is None else workers
    rollout = Rollout(policy, factory, used, limits or Limits(), method=method)
    try:
        async with aclosing(rollout.played(jobs)) as stream:
            async for _, trajectory in stream:
                yield trajectory
    finally:
        if workers is None:
            await used.close()


async def play_jobs(
    jobs: Sequence[Job],
    policy: Policy,
    factory: EnvFactory,
    limits: Limits | None = None,
    workers: Workers | None = None,
    progress: Callable[[int, int], object] = lambda finished, solved: None,
) -> list[Trajectory]:
    """Run all jobs on the current event loop and return their trajectories in the order of the jobs.

    Args:
        jobs: The jobs to run.
        policy: Plays every episode.
        factory: Makes the environments.
        limits: Limits of the rollout.
        workers: Hold the environments between calls (`rollouts`).
        progress: Called with the numbers of finished and of solved episodes when one ends.

    Raises:
        UsageError: Two jobs have the same id.
    """
    jobs = list(jobs)
    check_distinct(jobs)
    trajectories: dict[str, Trajectory] = {}
    solved = 0
    async with aclosing(rollouts(jobs, policy, factory, limits, workers)) as stream:
        async for trajectory in stream:
            trajectories[trajectory.id] = trajectory
            solved += trajectory.success
            progress(len(trajectories), solved)
    return [trajectories[job.id] for job in jobs]


def check_distinct(jobs: Iterable[Job]) -> None:
    """Raise `UsageError` if two jobs have the same id."""
    twice = [job_id for job_id, number in Counter(job.id for job in jobs).items() if number > 1]
    if twice:
        raise UsageError(f"two jobs are called {twice[0]!r}; give them different attempt numbers")


async def _try(episode: JobAttempt, workers: Workers) -> Trajectory | BaseException:
    """Play an episode; return its trajectory or the exception it raised.

    The episode has a task of its own: if the environment cancels it, that does not look like the caller's cancellation.
    """
    playing = asyncio.create_task(caught(lambda: episode.run(workers)))
    try:
        await asyncio.wait((playing,))
    finally:
        if not playing.done():  # the caller cancels
            playing.cancel()
            await asyncio.wait((playing,))
    return asyncio.CancelledError("the episode cancelled itself") if playing.cancelled() else playing.result()
