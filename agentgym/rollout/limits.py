"""`Limits`: the bounds of a rollout."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import Reason


@dataclass(frozen=True)
class Limits:
    """Limits of a rollout. Every time limit counts from the start of the work; time in queues does not count."""

    max_new_tokens: int = 512
    """Sampled tokens per turn."""
    max_tokens: int | None = None
    """Sampled tokens per episode (observations do not count); `None` means no limit."""
    generation_timeout_s: float | None = 300.0
    """Seconds for one turn of the policy. A token policy's turn is then cut off: the episode is truncated
    (`generation_time`) and keeps the sampled tokens, because retrying or dropping it would favour short answers. The
    episode of a chat policy fails, since it has no tokens to keep."""
    reset_timeout_s: float | None = 300.0
    """Seconds to make an environment, and seconds to reset it. The episode then fails (`reset_time`)."""
    step_timeout_s: float | None = 300.0
    """Seconds for the environment's side of a turn. The episode then fails (`step_time`)."""
    tool_timeout_s: float | None = None
    """Seconds for a single tool call. The episode then fails (`tool_time`)."""
    episode_timeout_s: float | None = None
    """Seconds for the whole episode, from its reset on. It is then truncated (`time`) at the end of the current turn;
    a token policy's turn is cut off and keeps the sampled tokens."""
    retries: int = 2
    """Number of retries of a failed episode, each on a fresh environment."""
    max_in_flight: int = 256
    """Episodes that run concurrently; fewer if the environment's `max_concurrent` is lower."""
    strict: bool = False
    """Stop at a broken task instead of recording it and continuing."""

    def __post_init__(self) -> None:
        check_whole(self, {"max_in_flight": 1, "retries": 0, "max_new_tokens": 1})
        if self.max_tokens is not None:
            check_whole(self, {"max_tokens": 1})
        for name in (item.name for item in fields(self) if item.name.endswith("_timeout_s")):
            value = getattr(self, name)
            if not (value is None or (isinstance(value, int | float) and value > 0)):
                raise UsageError(f"{name} must be a number of seconds above 0, or None for no limit, not {value!r}")


def check_whole(settings: object, least: Mapping[str, int]) -> None:
    """Raise `UsageError` unless each named setting is a whole number not below its least value."""
    for name, lowest in least.items():
        value = getattr(settings, name)
        if not isinstance(value, int):
            raise UsageError(f"{name} must be a whole number, not {value!r}")
        if value < lowest:
            raise UsageError(f"{name} must be at least {lowest}, not {value}")


_T = TypeVar("_T")

_MARGIN_S = 0.005
"""Seconds to wait after the earliest possible end of a limit before checking it again."""


class OutOfTime(InfrastructureError):
    """Something around the model took longer than its limit."""

    def __init__(self, reason: Reason, what: str, limit_s: float):
        super().__init__(reason, what, limit_s)
        self.reason, self.what, self.limit_s = reason, what, limit_s

    def __str__(self) -> str:
        return f"{self.what} took longer than its limit of {self.limit_s:g} s"


async def within(work: Awaitable[_T], limit_s: float | None, reason: Reason, what: str) -> _T:
    """Await `work` for at most `limit_s` seconds.

    Raises:
        OutOfTime: It took longer. It was cancelled; blocking work continues in an abandoned thread.
    """
    task = asyncio.current_task()
    assert task is not None
    if limit_s is None:
        result = await work
    else:
        limit = _Limit(task, limit_s)
        token = _running.set(limit)
        try:
            result = await work
        except BaseException as error:  # code may answer its cancellation with another exception
            if limit.caused_it():
                raise OutOfTime(reason, what, limit_s) from error
            raise
        finally:
            _running.reset(token)
            limit.stop()
            limit.caused_it()
    if task.cancelling():
        raise asyncio.CancelledError  # the code inside was cancelled but swallowed it
    return result


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Pause the innermost time limit of `within`, for example while waiting for an endpoint's rate limit."""
    limit = _running.get()
    if limit is None:
        yield
        return
    limit.stop()
    try:
        yield
    finally:
        limit.resume()


class _Limit:
    """Cancels a task once. (`asyncio.timeout` does the same; two of those are a third of what a short turn costs.)"""

    def __init__(self, task: asyncio.Task[Any], limit_s: float):
        self._task, self._passed, self._before = task, False, task.cancelling()
        self._loop, self._left_s, self._pauses = task.get_loop(), limit_s, 0
        self._start()

    def stop(self) -> None:
        """Stop the clock. It restarts after as many calls of `resume`."""
        self._pauses += 1
        if self._pauses == 1:
            self._timer.cancel()
            self._left_s -= self._loop.time() - self._began

    def resume(self) -> None:
        """Restart the clock after as many calls as there were of `stop`."""
        self._pauses -= 1
        if not self._pauses:
            self._start()

    def caused_it(self) -> bool:
        """Return whether the limit alone cancelled the task, and undo its cancellation."""
        if not self._passed:
            return False
        self._passed = False
        return self._task.uncancel() <= self._before

    def _start(self) -> None:
        self._began = self._loop.time()
        self._timer = self._loop.call_later(self._left_s, self._pass)

    def _pass(self) -> None:
        self._passed = True
        self._task.cancel()


_running: ContextVar[_Limit | None] = ContextVar("running_limit", default=None)
"""The innermost limit of the running code."""


async def watched(
    work: Awaitable[_T], running: Callable[[], tuple[str, float] | None], limit_s: float | None, reason: Reason
) -> _T:
    """Await `work` while no single part of it runs longer than `limit_s`.

    Args:
        work: The work to await.
        running: Returns the name of the part that has been running longest and its start (`time.monotonic`).
        limit_s: The limit of one part; `None` means no limit.
        reason: How an episode ends at this limit.

    Raises:
        OutOfTime: A part took longer.
    """
    if limit_s is None:
        return await work
    loop, overdue = asyncio.get_running_loop(), "a tool"
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer, overdue
        part = running()
        left_s = limit_s if part is None else limit_s - (time.monotonic() - part[1])
        if part is not None and left_s <= 0:
            overdue = part[0]
            limit.reschedule(loop.time())
        else:
            timer = loop.call_later(left_s + _MARGIN_S, look)

    limit = asyncio.timeout(None)
    try:
        async with limit:
            look()
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise OutOfTime(reason, overdue, limit_s) from error
        raise
    finally:
        if timer is not None:
            timer.cancel()
