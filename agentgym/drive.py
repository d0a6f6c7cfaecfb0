"""Run a coroutine from synchronous code: how environments have one implementation for `step` and `astep`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

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
    work.close()
    raise RuntimeError("a coroutine that was said never to wait did wait")


def run_on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on this process's background event loop, so that callers inside a running loop work too."""
    return asyncio.run_coroutine_threadsafe(work, _background_loop()).result()


def _background_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="agentgym-loop", daemon=True).start()
        return loop
