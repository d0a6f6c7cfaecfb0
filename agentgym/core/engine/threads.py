"""`Threads`: runs blocking work outside the event loop, each piece immediately and in its own thread.

In an executor of fixed size, a few stuck pieces of work block all others, and time in its queue counts against their
deadlines. Here nothing queues. Idle threads are reused and end after a while. All are daemons, so stuck work cannot
keep the process from exiting.
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


class _Failure:
    """An exception raised by a function. Futures cannot carry every exception."""

    def __init__(self, error: BaseException):
        self.error = error


class _Work(Generic[_T]):
    """A function to run, and the callback that takes its result, in the thread that ran it."""

    def __init__(self, function: Callable[[], _T], deliver: Callable[[_T | _Failure], object]):
        self._function, self.deliver = function, deliver
        self._context: Context = copy_context()

    def run(self) -> _T | _Failure:
        """Run the function. Called in the thread."""
        try:
            return self._context.run(self._function)
        except BaseException as error:
            return _Failure(error)


class _Waiter(Generic[_T]):
    """An event loop that waits for a result."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[_T | _Failure] = self._loop.create_future()

    def deliver(self, result: _T | _Failure) -> None:
        """Pass the result to the event loop. Called in the thread."""
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            self._loop.call_soon_threadsafe(self._settle, result)

    def _settle(self, result: _T | _Failure) -> None:
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
        """Start without threads: a forked child does not inherit them."""
        self._lock = threading.Lock()
        self._work: SimpleQueue[_Work[Any]] = SimpleQueue()
        self._free = 0
        """Number of idle threads, minus the pieces of work already handed to them."""

    async def run(self, function: Callable[[], _T]) -> _T:
        """Run `function` in a thread and return its result or raise its exception, even one that ends event loops.

        If the caller is cancelled, the function keeps running and its result is dropped.
        """
        waiting = _Waiter[_T]()
        self._begin(_Work(function, waiting.deliver))
        result = await waiting.result
        if isinstance(result, _Failure):
            raise result.error
        return result

    def run_together(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run functions, which must not raise, concurrently in threads, and block until all have returned.

        If the caller is interrupted, they keep running.
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
            # Without arguments: a thread holds on to them until it ends.
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
                self._free += 1  # before this result can cause a request for more work
            work.deliver(result)
            del work, result  # an idle thread must not keep an environment alive

    def _leaves(self) -> bool:
        """Whether this idle thread may end, which it may not once work was handed to it."""
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            return True


blocking = Threads("agentgym-blocking")
"""The threads that run environments and other blocking code."""

blocks: ContextVar[bool] = ContextVar("blocks", default=False)
"""Whether blocking environments run on the event loop itself, one turn at a time, instead of in threads."""
