"""Awaits foreign code in a task of its own, so that code that does not listen to a cancellation can be left to itself.

A policy with `except: pass` around its requests, for example, goes on whoever cancels it. Awaited directly, it would
hold its episode, and the end of the rollout, for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from agentgym.foreign.errors import caught

_T = TypeVar("_T")

UNHEARD_S = 5.0
"""Seconds that foreign code has to end after it was cancelled. Then it is left to itself."""

_left: set[asyncio.Task[Any]] = set()
"""Tasks that were left to themselves. An event loop does not keep its tasks alive."""


async def apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Await foreign code. Whoever cancels this does not wait long for code that does not listen."""
    task = asyncio.create_task(caught(lambda: work))
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,), timeout=UNHEARD_S)
        raise
    finally:
        if not task.done():
            _left.add(task)
            task.add_done_callback(_left.discard)
        if getcoroutinestate(work) == CORO_CREATED:
            work.close()  # it was cancelled before it began
    result = task.result()
    if isinstance(result, BaseException):
        raise result
    return result
