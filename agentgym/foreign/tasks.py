"""Keeps tasks that foreign code starts (e.g. a tool that gathers requests) from ending the event loop.

asyncio propagates `SystemExit` and `KeyboardInterrupt` from a task out of the loop, even if the task is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.foreign.errors import describe, ends_work, is_foreign, running_task


class ContainingFactory:
    """A task factory whose foreign tasks fail with `InfrastructureError` instead of ending the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop, self._before = loop, loop.get_task_factory()
        self._users = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        """Make a task."""
        work = _Contained(work) if is_foreign.get() else work
        if self._before is not None:
            return self._before(loop, work, **options)
        return asyncio.Task(work, loop=loop, **options)

    def enter(self) -> None:
        """Install the factory on first use."""
        self._users += 1
        if self._users == 1:
            self._loop.set_task_factory(self)

    def leave(self) -> None:
        """Restore the loop's own factory after the last use."""
        self._users -= 1
        if not self._users and self._loop.get_task_factory() is self:
            self._loop.set_task_factory(self._before)


@contextmanager
def contained_tasks() -> Iterator[None]:
    """Keep the tasks that foreign code starts from ending the running loop."""
    loop = asyncio.get_running_loop()
    now = loop.get_task_factory()
    factory = now if isinstance(now, ContainingFactory) else ContainingFactory(loop)
    factory.enter()
    try:
        yield
    finally:
        factory.leave()


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises `InfrastructureError` instead of ending the event loop."""

    def __init__(self, work: Coroutine[Any, Any, Any]):
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        return self._step(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._work.throw, *error)

    def close(self) -> None:
        self._work.close()

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except (SystemExit, KeyboardInterrupt) as error:
            if ends_work(error, running_task()):
                raise
            raise InfrastructureError(f"in a task: {describe(error)}") from error
