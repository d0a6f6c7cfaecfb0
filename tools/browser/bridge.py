"""One background thread with an event loop per process that owns every browser, and methods that cross over to it.

`@bridged` turns `async def work(self, ...)` into a method that blocks (`thing.work(...)`) and can be awaited from any
other loop (`await thing.work.awaited(...)`). A forked child gets a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agentgym.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class _Thread:
    """The loop of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="agentgym-browsers", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_lock = threading.Lock()
_current: _Thread | None = None


def browser_thread() -> _Thread:
    """Return the thread of this process, started if need be."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = _Thread()
        return _current


def _forget() -> None:
    """In a forked child: the parent's thread does not exist here, and its lock may be held for ever."""
    global _lock, _current
    _lock, _current = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the browsers' loop."""
    home = browser_thread()
    if threading.current_thread() is home.thread:
        work.close()
        raise UsageError("a blocking browser call was made on the browsers' own thread; await it instead")
    return asyncio.run_coroutine_threadsafe(work, home.loop)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the browsers' loop and block until it is done."""
    future = submit(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class Crossing(Generic[P, T]):
    """A bound `@bridged` method: called it blocks, `awaited` does the same for coroutines."""

    def __init__(self, work: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self.here = work

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it and block until it is done."""
        return wait(self.here(*args, **kwargs))

    def awaited(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Do it, from a coroutine on any event loop."""
        return asyncio.wrap_future(submit(self.here(*args, **kwargs)))


class bridged(Generic[S, P, T]):
    """Decorator for coroutine methods that run on the browsers' loop, whoever calls them."""

    def __init__(self, work: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> bridged[S, P, T]: ...

    @overload
    def __get__(self, instance: S, owner: type[S]) -> Crossing[P, T]: ...

    def __get__(self, instance: S | None, owner: type[S]) -> bridged[S, P, T] | Crossing[P, T]:
        return self if instance is None else Crossing(self._work.__get__(instance, owner))
