"""Awaits foreign code in a task of its own, so that code that ignores cancellation can be abandoned.

A policy with `except: pass` around its requests, for example, survives every cancellation. Awaited directly, it would
block its episode, and the end of the rollout, for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from agentgym.foreign.errors import caught

_T = TypeVar("_T")

UNHEARD_S = 5.0
"""Seconds that cancelled foreign code has to end before it is abandoned."""

_left: set[asyncio.Task[Any]] = set()
"""Abandoned tasks, kept here because an event loop does not keep its tasks alive."""


async def apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Await foreign code. Cancelling this returns soon, even if the code ignores cancellation."""
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
            work.close()  # cancelled before it started
    result = task.result()
    if isinstance(result, BaseException):
        raise result
    return result
