"""Keeps event loops alive while foreign code runs on them, and ends the tasks that it leaves behind.

A callback that raises `SystemExit` ends its loop, as does `loop.stop()`. Threads that wait for the loop would then wait
for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentgym.foreign.apart import UNHEARD_S
from agentgym.foreign.errors import describe

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_WAVES = 100
"""Rounds of cancellation: a task that is cancelled may start another, some of them for ever."""


def keep_running(loop: asyncio.AbstractEventLoop, is_over: Callable[[], bool]) -> None:
    """Run a loop until it is stopped and `is_over`."""
    while not is_over():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            _log.warning("a callback on an event loop tried to end it: %s", describe(error))


def run_to_end(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on a loop; return its result."""
    task = loop.create_task(work)
    task.add_done_callback(lambda _: loop.stop())
    keep_running(loop, task.done)
    return task.result()


async def end_others() -> None:
    """End all other tasks of the running loop, and its generators. Tasks that ignore cancellation are abandoned."""
    await asyncio.sleep(0)  # let scheduled tasks start
    await _cancel_others()
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait((closing,), timeout=UNHEARD_S)
    if not closing.done():
        await _cancel_others()


async def _cancel_others() -> None:
    left_alone = {asyncio.current_task()}
    for _ in range(_WAVES):
        others = asyncio.all_tasks() - left_alone
        if not others:
            return
        for task in others:
            task.cancel()
        done, deaf = await asyncio.wait(others, timeout=UNHEARD_S)
        left_alone |= deaf
        for task in done:
            if not task.cancelled():
                task.exception()  # nothing else retrieves the exception, and asyncio would report that
