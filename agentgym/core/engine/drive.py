"""Runs coroutines from synchronous code, so that `step` and `astep` share one implementation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from agentgym.base.errors import UsageError
from agentgym.core.foreign import ContainingFactory, caught, keep_running

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in its own thread, started on first use. Create one per purpose and keep it.

    A forked child does not inherit threads: it starts a new loop without the parent's work.

    Args:
        name: Name of the thread.
        prepare: Called with each loop before it starts.
    """

    def __init__(self, name: str, prepare: Callable[[asyncio.AbstractEventLoop], None] | None = None):
        self._name, self._prepare = name, prepare
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._parents: list[asyncio.AbstractEventLoop | None] = []
        os.register_at_fork(after_in_child=self._forget)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this process."""
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                if self._prepare is not None:
                    self._prepare(loop)
                self._thread = threading.Thread(target=_run, args=(loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop."""
        loop = self.loop
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(f"a blocking call was made in the thread of {self._name}; await it instead")
        return asyncio.run_coroutine_threadsafe(work, loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and block until it is done. Interrupting the caller cancels it."""
        pending = self.submit(work)
        try:
            return pending.result()
        except BaseException:
            pending.cancel()
            raise

    def _forget(self) -> None:
        """In a forked child, drop the parent's loop and lock, which another thread may have held."""
        self._lock = threading.Lock()
        self._parents.append(self._loop)  # kept, because a garbage-collected loop warns that it was not closed
        self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    keep_running(loop, lambda: False)


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
