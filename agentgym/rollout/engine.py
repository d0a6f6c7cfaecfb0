"""`RolloutEngine`: the one object that owns a rollout, whoever asks for it.

It owns a long-lived event loop, the environments and where they run, and the policy. It is given groups and yields
finished ones. Synchronous training awaits all groups of a step, an asynchronous trainer takes them as they come, and
evaluation takes single trajectories.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar

from agentgym.engine.threads import blocking
from agentgym.errors import UsageError
from agentgym.policy import Policy
from agentgym.rollout.failures import Failures, Tally
from agentgym.rollout.jobs import EnvFactory, Group, Job, PlayedGroup
from agentgym.rollout.limits import Limits
from agentgym.rollout.streams import Rollout
from agentgym.rollout.waits import Waits, report_on_signal
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.choice import make_workers
from agentgym.trajectory import Trajectory

_T = TypeVar("_T")


class RolloutEngine:
    """Plays groups of episodes. Use it as a context manager, or close it.

    Args:
        factory: Makes the environments; recorded in the trajectories so that they can be replayed.
        policy: Plays every episode.
        limits: Limits of each episode.
        workers: Where environments run: `inline` (on the event loop), `threads`, `processes`, `ray`, or an object.
            Episodes of the same seeds are the same everywhere.
        failures: What to do about episodes that fail.
    """

    def __init__(
        self,
        factory: EnvFactory,
        policy: Policy,
        limits: Limits | None = None,
        *,
        workers: str | Workers = "threads",
        failures: Failures | None = None,
    ):
        self.factory, self.policy, self.limits = factory, policy, limits or Limits()
        self.failures = failures or Failures()
        self.tally = Tally(self.failures.breaker, self.limits.max_in_flight)
        """Counts tries and failures since the engine was made."""
        self.waits = Waits()
        """What every running trajectory waits for."""
        self._workers = make_workers(workers, factory, self.limits)
        self._loop = _LoopThread()
        report_on_signal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trajectories(self, work: Iterable[Job | Group]) -> Iterator[Trajectory]:
        """Yield trajectories as they finish, in no particular order. Leaving the iteration early ends the others.

        Args:
            work: Jobs or groups, consumed as episodes finish, so the iterable may be endless.

        Raises:
            UsageError: The environment, the policy or the work cannot be used.
            InfrastructureError: As `failures` decides.
        """
        return (trajectory for _, trajectory in self._stepped(self._rollout().played(_jobs(work))))

    def play(self, groups: Iterable[Group]) -> Iterator[PlayedGroup]:
        """Yield groups as they finish, in no particular order. Arguments and errors as for `trajectories`."""
        return self._stepped(_assembled(self._rollout(), groups))

    def collect(self, groups: Sequence[Group]) -> list[PlayedGroup]:
        """Play all groups and return them in order."""
        found = {id(played.group): played for played in self.play(groups)}
        return [found[id(group)] for group in groups]

    async def stream(self, groups: Iterable[Group]) -> AsyncIterator[PlayedGroup]:
        """`play` for callers that run an event loop of their own, which stays free. Close it to end the episodes."""
        stream = _assembled(self._rollout(), groups)
        try:
            while (call := self._loop.start(_following(stream))) is not None:
                played = await call.wait_async()
                if played is None:
                    return
                yield played
        finally:
            await self._loop.start(stream.aclose()).wait_async()

    def close(self) -> None:
        """Close the environments and end the event loop. Safe to call twice."""
        if self._loop.is_running:
            try:
                self._loop.start(self._workers.close()).wait()
            finally:
                self._loop.stop()

    def _rollout(self) -> Rollout:
        if not self._loop.is_running:
            raise UsageError("this rollout engine is closed; make another one")
        return Rollout(self.policy, self.factory, self._workers, self.limits, self.failures, self.tally, self.waits)

    def _stepped(self, stream: AsyncGenerator[_T]) -> Iterator[_T]:
        """Iterate over an asynchronous generator that runs on the engine's loop."""
        try:
            while (item := self._loop.start(_following(stream)).wait()) is not None:
                yield item
        finally:
            self._loop.start(stream.aclose()).wait()


def _jobs(work: Iterable[Job | Group]) -> Iterator[Job]:
    for one in work:
        yield from one.jobs if isinstance(one, Group) else (one,)


async def _assembled(rollout: Rollout, groups: Iterable[Group]) -> AsyncGenerator[PlayedGroup]:
    """Yield groups whose last trajectory has just finished."""
    unfinished: dict[str, tuple[Group, dict[int, Trajectory]]] = {}

    def jobs() -> Iterator[Job]:
        for group in groups:
            members: tuple[Group, dict[int, Trajectory]] = (group, {})
            for job in group.jobs:
                unfinished[job.id] = members
                yield job

    async with aclosing(rollout.played(jobs())) as stream:
        async for job, trajectory in stream:
            group, found = unfinished.pop(job.id)
            found[job.attempt] = trajectory
            if len(found) == group.size:
                yield PlayedGroup(group, [found[attempt] for attempt in sorted(found)])


async def _following(stream: AsyncGenerator[_T]) -> _T | None:
    """Return the next item, or `None` at the end."""
    return await anext(stream, None)


class _LoopThread:
    """An event loop in a thread of its own, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="agentgym-rollout", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the loop takes work."""
        return not self._loop.is_closed()

    def start(self, work: Coroutine[Any, Any, _T]) -> _Call[_T]:
        """Start a coroutine on the loop."""
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("a rollout was started from inside of a rollout; use `agentgym.rollout.collect` there")
        return _Call(self._loop, work)

    def stop(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # Tasks of policies and environments may be left; they must not be destroyed while pending.
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())


class _Call(Generic[_T]):
    """A coroutine that runs on another thread's loop. Whoever waits for it and is interrupted ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]):
        self._loop, self._work = loop, work
        self._done = threading.Event()
        self._task: asyncio.Task[_T | _Raised] | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(_outcome(self._work))
        self._task.add_done_callback(lambda _: self._done.set())

    def wait(self) -> _T:
        """Block until it is done; return its result or raise its exception."""
        try:
            self._done.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            self._done.wait()  # until its episodes have been closed
            raise
        return self._result()

    async def wait_async(self) -> _T:
        """`wait` without blocking the event loop that runs this."""
        try:
            await asyncio.shield(blocking.run(self._done.wait))
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            await blocking.run(self._done.wait)
            raise
        return self._result()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _result(self) -> _T:
        assert self._task is not None
        result = self._task.result()
        if isinstance(result, _Raised):
            raise result.error
        return result


class _Raised:
    """What a coroutine raised: an exception such as `SystemExit` would end the loop."""

    def __init__(self, error: BaseException):
        self.error = error


async def _outcome(work: Coroutine[Any, Any, _T]) -> _T | _Raised:
    try:
        return await work
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return _Raised(error)
