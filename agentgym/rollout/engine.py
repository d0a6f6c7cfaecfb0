"""`RolloutEngine`: plays groups of episodes for training and evaluation.

It owns an event loop, the environments with their workers, and the policy. It takes groups and yields finished ones.
Synchronous training awaits all groups of a step, an asynchronous trainer takes them as they finish, and evaluation
takes single trajectories.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Generic, Self, TypeVar

from agentgym.base.errors import UsageError
from agentgym.core.engine.drive import close_unbegun
from agentgym.core.engine.threads import blocking
from agentgym.core.foreign import end_others, ends_work, keep_running, run_to_end, running_task
from agentgym.core.policy import Policy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout.failures import Failures, Tally
from agentgym.rollout.feed import GroupFeed
from agentgym.rollout.jobs import EnvFactory, Group, Job, PlayedGroup
from agentgym.rollout.limits import Limits
from agentgym.rollout.methods import PLAYED_ONCE, Method
from agentgym.rollout.streams import Events, JobSlots, Rollout, check_distinct
from agentgym.rollout.waits import Waits, report_on_signal
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.choice import make_workers

_T = TypeVar("_T")

EXIT_S = 20.0
"""Seconds for closing an engine that nobody closed when the interpreter exits."""

_open: set[RolloutEngine] = set()


class EngineClosed(UsageError):
    """The engine is closed and cannot play."""


@atexit.register
def _close_all() -> None:
    """Close the engines still open at exit, while threads run: an unfinished iteration would wait forever."""
    for engine in list(_open):
        engine.close(EXIT_S)


class RolloutEngine:
    """Plays groups of episodes. Use it as a context manager, or close it.

    Args:
        factory: Makes the environments; recorded in the trajectories so that they can be replayed.
        policy: Plays every episode.
        limits: Limits of each episode.
        workers: Where environments run: `inline` (on the event loop), `threads`, `processes`, `ray`, or an object.
            Episodes of the same seeds are the same everywhere.
        failures: What to do about episodes that fail.
        method: How a trajectory is made; by default by one episode (see `agentgym.rollout.lookahead`).
    """

    def __init__(
        self,
        factory: EnvFactory,
        policy: Policy,
        limits: Limits | None = None,
        *,
        workers: str | Workers = "threads",
        failures: Failures | None = None,
        method: Method = PLAYED_ONCE,
    ):
        self.factory, self.policy, self.limits = factory, policy, limits or Limits()
        self.failures, self.method = failures or Failures(), method
        self.tally = Tally(self.failures.breaker, self.limits.max_in_flight)
        """Counts tries and failures since the engine was made."""
        self.waits = Waits()
        """The component that each running trajectory waits for."""
        self._slots = JobSlots()
        self._workers = make_workers(workers, factory, self.limits)
        self._loop = _LoopThread()
        self._streams: set[AsyncGenerator[Any]] = set()
        """Iterations whose episodes may be running."""
        self._closing = threading.Lock()
        self._is_ending = False
        """Whether `close` is ending the episodes and the environments."""
        _open.add(self)
        report_on_signal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trajectories(self, work: Iterable[Job | Group]) -> Iterator[Trajectory]:
        """Yield trajectories as they finish, in no particular order. Leaving the iteration early ends the rest.

        Args:
            work: Jobs or groups, consumed as episodes finish, so the iterable may be endless.

        Raises:
            UsageError: The environment, the policy or the work is not valid.
            InfrastructureError: An episode failed and `failures` says to stop.
        """
        return (trajectory for _, trajectory in self._stepped(self._rollout().played(_jobs(work))))

    def play(self, groups: Iterable[Group]) -> Iterator[PlayedGroup]:
        """Yield groups as they finish, in no particular order. Arguments and errors as for `trajectories`."""
        return self._stepped(_assembled(self._rollout(), groups))

    def collect(self, groups: Sequence[Group]) -> list[PlayedGroup]:
        """Play all groups and return them in order. Raises `UsageError` if two trajectories have the same id."""
        groups = list(groups)
        check_distinct(job for group in groups for job in group.jobs)
        results = {id(played.group): played for played in self.play(groups)}
        return [results[id(group)] for group in groups]

    async def stream(self, groups: Iterable[Group]) -> AsyncIterator[PlayedGroup]:
        """Yield groups as `play` does, without blocking the caller's event loop. Close it to end the episodes."""
        stream = _assembled(self._rollout(), groups)
        try:
            while (played := await self._loop.start(self._next(stream)).wait_async()) is not None:
                yield played
        finally:
            if self._loop.is_running:
                with suppress(EngineClosed):
                    await self._loop.start(self._leave(stream)).wait_async()

    def feed(self) -> GroupFeed:
        """Return a feed: it plays groups as they are added, until the engine closes."""
        rollout = self._rollout()
        return GroupFeed(self._loop.start, self._loop.soon, lambda groups, events: _assembled(rollout, groups, events))

    def pause(self) -> None:
        """Hold each episode of a token policy before its next turn; return once no turn is being sampled.

        Resets, tools and grading continue. Time limits do not count the time that an episode is held.
        """
        self._loop.start(self.waits.turns.close()).wait()

    def resume(self) -> None:
        """Let the episodes that `pause` holds continue."""
        self._loop.soon(self.waits.turns.open)

    def close(self, limit_s: float | None = None) -> None:
        """End the episodes, close the environments and end the event loop. Safe to call twice.

        Args:
            limit_s: Seconds after which whatever still runs is abandoned; `None` waits for it.

        Raises:
            UsageError: Called from within the rollout, such as by a policy or an environment.
        """
        if self._loop.is_own_thread:
            raise UsageError(
                "a rollout engine cannot be closed from inside its rollout; leave the iteration, then close it"
            )
        with self._closing:
            if self._loop.is_running:
                self._loop.finish(self._end(), limit_s)
            _open.discard(self)

    async def _end(self) -> None:
        self._is_ending = True
        await self._loop.cancel_others()
        await asyncio.gather(*map(self._leave, list(self._streams)), return_exceptions=True)
        await self._workers.close()

    def _rollout(self) -> Rollout:
        self._loop.check()
        shared = self.failures, self.tally, self.waits, self.method, self._slots
        return Rollout(self.policy, self.factory, self._workers, self.limits, *shared)

    def _stepped(self, stream: AsyncGenerator[_T]) -> Iterator[_T]:
        """Iterate over an asynchronous generator that runs on the engine's loop."""
        try:
            while (item := self._loop.start(self._next(stream)).wait()) is not None:
                yield item
        finally:
            if self._loop.is_own_thread:  # the garbage collector, which may run in any thread, ends the iteration
                self._loop.begin(self._leave(stream))
            elif self._loop.is_running:
                with suppress(EngineClosed):  # another thread closed the engine and ends the episodes
                    self._loop.start(self._leave(stream)).wait()

    async def _next(self, stream: AsyncGenerator[_T]) -> _T | None:
        """Return the next item, or `None` at the end. Raises `EngineClosed` if the engine is closing."""
        if self._is_ending:
            raise _closed_meanwhile()
        self._streams.add(stream)
        return await anext(stream, None)

    async def _leave(self, stream: AsyncGenerator[Any]) -> None:
        """End the episodes of an iteration, unless they are ending already."""
        if stream in self._streams:
            self._streams.discard(stream)
            await stream.aclose()


def _jobs(work: Iterable[Job | Group]) -> Iterator[Job]:
    for item in work:
        yield from item.jobs if isinstance(item, Group) else (item,)


async def _assembled(
    rollout: Rollout, groups: Iterable[Group | None], events: Events | None = None
) -> AsyncGenerator[PlayedGroup]:
    """Yield groups whose last trajectory has just finished. Arguments as for `Rollout.played`."""
    unfinished: dict[str, tuple[Group, dict[int, Trajectory]]] = {}

    def jobs() -> Iterator[Job | None]:
        for group in groups:
            if group is None:
                yield None
                continue
            members: tuple[Group, dict[int, Trajectory]] = (group, {})
            for job in group.jobs:
                unfinished[job.id] = members
                yield job

    async with aclosing(rollout.played(jobs(), events)) as stream:
        async for job, trajectory in stream:
            group, trajectories = unfinished.pop(job.id)
            trajectories[job.attempt] = trajectory
            if len(trajectories) == group.size:
                yield PlayedGroup(group, [trajectories[attempt] for attempt in sorted(trajectories)])


class _LoopThread:
    """An event loop in a thread of its own, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._finishing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.calls: set[_Call[Any]] = set()
        """Calls that another thread may wait for."""
        self._thread = threading.Thread(target=self._run, name="agentgym-rollout", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the loop takes work. In a forked process, no thread runs it."""
        return not self._loop.is_closed() and self._process == os.getpid()

    @property
    def is_own_thread(self) -> bool:
        """Whether this is the loop's thread, which must not wait for the loop."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """Raise `UsageError` if the loop takes no work."""
        if self._process != os.getpid():
            raise UsageError("this rollout engine belongs to the parent process; make another one here")
        if self._loop.is_closed():
            raise EngineClosed("this rollout engine is closed; make another one")

    def start(self, work: Coroutine[Any, Any, _T]) -> _Call[_T]:
        """Start a coroutine on the loop."""
        try:
            self.check()
            if self.is_own_thread:
                raise UsageError("a rollout was started from inside a rollout; use `agentgym.rollout.rollouts` there")
            return _Call(self, work)
        except BaseException:
            work.close()
            raise

    def begin(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T | _Raised]:
        """Start a coroutine. May be called only on the loop's own thread."""
        task = self._loop.create_task(_outcome(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: close_unbegun(work))
        return task

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError as error:
            raise EngineClosed("this rollout engine is closed; make another one") from error

    async def cancel_others(self) -> None:
        """Cancel all tasks but the caller's, and wait until they end."""
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def finish(self, last: Coroutine[Any, Any, None], limit_s: float | None) -> None:
        """Run a last coroutine, then end the loop and its thread; abandon both after `limit_s` seconds."""
        call = self.start(last)
        try:
            if call.is_done(limit_s):
                call.wait()
        finally:
            self._finishing = True
            self.soon(self._loop.stop)
            self._thread.join(limit_s)
            if self._thread.is_alive():
                self._process = -1  # abandoned
            else:
                self._loop.close()
                for pending in list(self.calls):  # they came too late to start
                    pending.abandon()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        keep_running(self._loop, lambda: self._finishing)
        # Tasks of policies and environments may still be pending, and must not be destroyed then.
        run_to_end(self._loop, end_others())


class _Call(Generic[_T]):
    """A coroutine that runs on another thread's loop. An interrupt of the waiting thread cancels it."""

    def __init__(self, loop: _LoopThread, work: Coroutine[Any, Any, _T]):
        self._loop, self._work = loop, work
        self._done = threading.Event()
        self._task: asyncio.Task[_T | _Raised] | None = None
        loop.calls.add(self)
        try:
            loop.soon(self._begin)
        except BaseException:
            loop.calls.discard(self)
            raise

    def _begin(self) -> None:
        self._task = self._loop.begin(self._work)
        self._task.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._loop.calls.discard(self)
        self._done.set()

    def abandon(self) -> None:
        """Release the threads that wait for a coroutine that never started."""
        if self._task is None:
            self._work.close()
        self._end()

    def is_done(self, limit_s: float | None) -> bool:
        """Wait up to `limit_s` seconds; return whether it is done."""
        return self._done.wait(limit_s)

    def wait(self) -> _T:
        """Block until it is done; return its result or raise its exception."""
        try:
            self._done.wait()
        except BaseException:
            self._loop.soon(self._cancel)
            self._done.wait()  # until its episodes have been closed
            raise
        return self._result()

    async def wait_async(self) -> _T:
        """`wait` without blocking the event loop that runs this."""
        try:
            await asyncio.shield(blocking.run(self._done.wait))
        except BaseException:
            self._loop.soon(self._cancel)
            await blocking.run(self._done.wait)
            raise
        return self._result()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _result(self) -> _T:
        if self._task is None or self._task.cancelled():
            raise _closed_meanwhile()
        result = self._task.result()
        if isinstance(result, _Raised):
            raise result.error
        return result


def _closed_meanwhile() -> EngineClosed:
    return EngineClosed("the rollout engine was closed while it played")


class _Raised:
    """An exception as a result: raised in a task, one such as `SystemExit` would end the loop."""

    def __init__(self, error: BaseException):
        self.error = error


async def _outcome(work: Coroutine[Any, Any, _T]) -> _T | _Raised:
    try:
        return await work
    except BaseException as error:
        if ends_work(error, running_task()):
            raise
        return _Raised(error)
