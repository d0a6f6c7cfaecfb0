"""Runs coroutines from synchronous code, so that `step` and `astep` share one implementation."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from agentgym.engine.background import BackgroundLoop
from agentgym.foreign.errors import caught
from agentgym.foreign.tasks import ContainingFactory

_T = TypeVar("_T")

_background = BackgroundLoop("agentgym-loop", lambda loop: ContainingFactory(loop).enter())


def run_now(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never suspends, in place, at the cost of a function call."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    with suppress(BaseException):
        work.close()
    raise RuntimeError("a synchronous method suspended to wait; declare it with `async def`")


def run_on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on this process's background event loop, so that callers inside a running loop work too."""
    try:
        result = _background.wait(caught(lambda: work))
    except BaseException:
        # The caller was interrupted, so the work must not continue.
        _background.loop.call_soon_threadsafe(close_unbegun, work)
        raise
    if isinstance(result, BaseException):
        raise result
    return result


def start_on_loop(work: Coroutine[Any, Any, _T]) -> Future[_T | BaseException]:
    """Start a coroutine on the background loop. The future holds its result or exception; cancelling the future cancels
    the coroutine."""
    return _background.submit(caught(lambda: work))


def close_unbegun(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that was cancelled before it started; otherwise Python warns that it was never awaited."""
    if getcoroutinestate(work) == CORO_CREATED:
        work.close()
