"""`EnvPool`: the environments of one process, made on demand and reused.

Making and closing one may be slow (it reads task files, pulls images), so both happen in threads and block no running
episode. Environments are made one at a time: constructors need not be thread-safe.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from agentgym.base.errors import AgentGymError, InfrastructureError, ToolError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.threads import blocking
from agentgym.core.env import Env
from agentgym.core.foreign import apart, ends_work, running_task
from agentgym.core.making import close, closing_errors_logged
from agentgym.rollout.limits import OutOfTime

CLOSING_S = 60.0
"""Time limit for closing an environment."""

PROBES = 3
"""Attempts to make the environment that says how many environments may exist."""

PROBE_WAIT_S = 0.1
"""Seconds before the second attempt; twice as many before the third."""

STUCK_S = 5.0
"""Time limit at the end of a rollout for closing environments that did not return in time."""


class EnvPool:
    """Environments that have finished an episode and can play another. Broken ones are discarded."""

    def __init__(self, factory: Callable[[], Env]):
        self._factory = factory
        self._idle: list[Env] = []
        self._one_at_a_time = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, limit_s: float | None = None) -> Env:
        """Return an idle environment, or a fresh one.

        Args:
            limit_s: Time limit for making one, without the time spent waiting for others to be made.

        Raises:
            OutOfTime: Making one took longer.
        """
        if self._idle:
            return self._idle.pop()
        async with self._one_at_a_time:
            if self._idle:
                return self._idle.pop()
            making = _Making(self._factory)
            try:
                # A constructor that hangs must not block the ones after it.
                if not await making.is_done(limit_s):
                    assert limit_s is not None
                    raise OutOfTime(Reason.RESET_TIME, "making an environment", limit_s)
            except BaseException:
                if (env := making.abandoned()) is not None:
                    self.close_later(env)
                raise
            return making.result()

    def give_back(self, env: Env) -> None:
        """Return `env` for use by another episode."""
        self._idle.append(env)

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        """Return how many episodes can run concurrently without waiting for each other's resources.

        Args:
            most: Upper bound of the result.
            limit_s: Time limit for making the environment that says how many.
        """
        env = await self._probe(limit_s)
        if env is None:
            return most  # the episodes retry, and report the error if it persists
        self.give_back(env)
        if env.max_concurrent is None:
            return most
        if env.max_concurrent < 1:
            raise UsageError(f"{type(env).__name__}.max_concurrent must be at least 1, not {env.max_concurrent}")
        return min(most, env.max_concurrent)

    async def _probe(self, limit_s: float | None) -> Env | None:
        """Return an environment; `None` if it cannot be made now. Raises errors that a retry cannot fix."""
        for probe in range(PROBES):
            await asyncio.sleep(PROBE_WAIT_S * probe)
            try:
                return await self.take(limit_s)
            except OutOfTime:
                break
            except BaseException as error:
                if (
                    is_callers_mistake(error)
                    or isinstance(error, TypeError | ImportError)
                    or ends_work(error, running_task())
                ):
                    raise
        return None

    def close_later(self, env: Env) -> None:
        """Close an environment without waiting for it. Closing a stuck one may end its stuck work."""
        task = asyncio.get_running_loop().create_task(discard(env))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the idle environments."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(discard, idle))
        if self._closing:
            await asyncio.wait(self._closing, timeout=STUCK_S)


class _Making:
    """Makes one environment in a thread. If it is abandoned, it is closed once it is made."""

    def __init__(self, make: Callable[[], Env]):
        self._make = make
        self._lock = threading.Lock()
        self._made: Env | None = None
        self._unwanted = False
        self._running = asyncio.ensure_future(blocking.run(self._run))

    async def is_done(self, timeout_s: float | None) -> bool:
        """Wait up to `timeout_s`; return whether there is a result."""
        done, _ = await asyncio.wait((self._running,), timeout=timeout_s)
        return bool(done)

    def result(self) -> Env:
        """Return the environment. Raises the constructor's exception."""
        error = self._running.result()
        if error is not None:
            raise error
        assert self._made is not None
        return self._made

    def abandoned(self) -> Env | None:
        """Abandon the environment: it is closed once it is made. Return it if it exists already."""
        self._running.cancel()
        with self._lock:
            self._unwanted = True
        return self._made

    def _run(self) -> BaseException | None:
        """Make the environment; return its exception, if any, since futures cannot carry every exception."""
        try:
            env = self._make()
        except BaseException as error:
            return error
        with self._lock:
            if not self._unwanted:
                self._made = env
                return None
        close(env)
        return None


def is_callers_mistake(error: BaseException) -> bool:
    """Whether an error is the caller's, which no retry can fix and every other episode would hit too."""
    return isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError | ToolError)


async def discard(env: Env) -> None:
    """Close an environment that ran on this event loop. An error in closing is only logged."""
    with closing_errors_logged(env):
        async with asyncio.timeout(CLOSING_S):
            await (apart(env.aclose()) if env.is_async else env.aclose())
