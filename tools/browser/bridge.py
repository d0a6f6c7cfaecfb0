"""The background thread whose event loop owns all browsers of a process, and methods that run on it.

`@bridged` turns `async def work(self, ...)` into a method that blocks (`thing.work(...)`) and can be awaited from any
other loop (`await thing.work.awaited(...)`). A forked child gets a new thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agentgym.core.engine.drive import BackgroundLoop

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


browsers = BackgroundLoop("agentgym-browsers")
"""Owns every browser of this process."""


class Crossing(Generic[P, T]):
    """A bound `@bridged` method: calling it blocks; `awaited` is its asynchronous form."""

    def __init__(self, work: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self.here = work

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it and block until it is done."""
        return browsers.wait(self.here(*args, **kwargs))

    def awaited(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run it from a coroutine on any event loop."""
        return asyncio.wrap_future(browsers.submit(self.here(*args, **kwargs)))


class bridged(Generic[S, P, T]):
    """Decorator for coroutine methods that always run on the browsers' loop."""

    def __init__(self, work: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> bridged[S, P, T]: ...

    @overload
    def __get__(self, instance: S, owner: type[S]) -> Crossing[P, T]: ...

    def __get__(self, instance: S | None, owner: type[S]) -> bridged[S, P, T] | Crossing[P, T]:
        return self if instance is None else Crossing(self._work.__get__(instance, owner))
