"""Run a coroutine from synchronous code: how environments have one implementation for `step` and `astep`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from agentgym.foreign import caught
from agentgym.foreign_tasks import ContainingFactory

_T = TypeVar("_T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""One background loop per process id: a forked child does not have its parent's thread."""


def run_now(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits, on the spot, at the cost of a function call."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    with suppress(BaseException):
        work.close()
    raise RuntimeError("a coroutine that must not wait did wait; declare the method that waits with `async def`")


def run_on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on this process's background event loop, so that callers inside a running loop work too."""
    loop = _background_loop()
    pending = asyncio.run_coroutine_threadsafe(caught(lambda: work), loop)
    try:
        result = pending.result()
    except BaseException:
        # The caller is interrupted: the work must not go on behind its back.
        pending.cancel()
        loop.call_soon_threadsafe(close_unbegun, work)
        raise
    if isinstance(result, BaseException):
        raise result
    return result


def close_unbegun(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that was cancelled before it began, which otherwise warns that nobody awaited it."""
    if getcoroutinestate(work) == CORO_CREATED:
        work.close()


def _background_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            ContainingFactory(loop).enter()
            threading.Thread(target=loop.run_forever, name="agentgym-loop", daemon=True).start()
        return loop
