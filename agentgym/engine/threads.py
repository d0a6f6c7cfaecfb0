"""`Threads`: runs blocking work beside an event loop, each piece at once and in a thread of its own.

An executor of fixed size lets a few stuck pieces of work hold up all others, and time spent in its queue counts against
their deadlines. Here nothing queues. Idle threads are used again and end after a while. All are daemons, so stuck work
cannot keep the process from exiting either.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

IDLE_S = 10.0
"""An idle thread ends after this many seconds."""


class _Raised:
    """What a function raised. Futures cannot carry every exception."""

    def __init__(self, error: BaseException):
        self.error = error


class _Work(Generic[_T]):
    """A function to run, and what takes its result, in the thread that ran it."""

    def __init__(self, function: Callable[[], _T], deliver: Callable[[_T | _Raised], object]):
        self._function, self.deliver = function, deliver
        self._context: Context = copy_context()

    def run(self) -> _T | _Raised:
        """Run the function. Called in the thread."""
        try:
            return self._context.run(self._function)
        except BaseException as error:
            return _Raised(error)


class _Waiting(Generic[_T]):
    """An event loop that waits for a result."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[_T | _Raised] = self._loop.create_future()

    def deliver(self, result: _T | _Raised) -> None:
        """Pass the result to the event loop. Called in the thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, result)

    def _settle(self, result: _T | _Raised) -> None:
        if not self.result.done():
            self.result.set_result(result)


class Threads:
    """Threads that grow with the work.

    Args:
        name: Prefix of the threads' names.
    """

    def __init__(self, name: str):
        self._name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start without threads. A forked child has none of its parent's."""
        self._lock = threading.Lock()
        self._work: SimpleQueue[_Work[Any]] = SimpleQueue()
        self._free = 0
        """Idle threads, less the pieces of work that are on their way to one."""

    async def run(self, function: Callable[[], _T]) -> _T:
        """Run `function` in a thread and return its result or raise its exception, also one that ends event loops.

        If the caller is cancelled, the function runs on, and its result is dropped.
        """
        waiting = _Waiting[_T]()
        self._begin(_Work(function, waiting.deliver))
        result = await waiting.result
        if isinstance(result, _Raised):
            raise result.error
        return result

    def run_together(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run functions that do not raise at the same time, each in a thread, and block until all have returned.

        If the caller is interrupted, they run on.
        """
        finished: SimpleQueue[object] = SimpleQueue()
        for function in functions:
            self._begin(_Work(function, finished.put))
        for _ in functions:
            finished.get()

    def _begin(self, work: _Work[Any]) -> None:
        with self._lock:
            is_new = self._free <= 0
            self._free -= not is_new
        if is_new:
            # Without arguments, which a thread keeps until it ends.
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_S)
            except Empty:
                if self._leaves():
                    return
                work = self._work.get()
            result = work.run()
            with self._lock:
                self._free += 1  # before anyone can ask for more because of this result
            work.deliver(result)
            del work, result  # an idle thread must not keep an environment alive

    def _leaves(self) -> bool:
        """Whether this idle thread may end; not if work is on its way to it."""
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            return True


blocking = Threads("agentgym-blocking")
"""Where environments and other blocking code run."""

blocks: ContextVar[bool] = ContextVar("blocks", default=False)
"""Whether blocking environments run on the event loop itself, one turn at a time, instead of beside it."""
