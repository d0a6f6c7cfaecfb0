"""Distinguishes exceptions raised by foreign code (an environment's hooks, a policy) from the caller ending the work.

`SystemExit`, `CancelledError`, `GeneratorExit` and the like are not `Exception`s. Raised inside a task, they end the
event loop or look like a cancellation. Here they fail one episode like any other error, unless the caller really
cancels, interrupts or closes the work.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from typing import Any, TypeVar

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError

_T = TypeVar("_T")

MAX_CHARS = 2_000
"""Messages are cut to this length."""


def running_task() -> asyncio.Task[Any] | None:
    """Return the running task, or `None` in a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def ends_work(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether `error` means that the caller is ending the work, rather than that the work raised it.

    Args:
        error: The exception that foreign code raised.
        task: The task that called the code, if any.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        # A coroutine can be closed only while it is suspended. If its task is running, the code itself raised this.
        return running_task() is not task
    return isinstance(error, KeyboardInterrupt) and _ctrl_c_raises()


def describe(error: BaseException) -> str:
    """Return the type and message of an error, even if its own methods raise."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as own:
        text = f"(its message cannot be read: {type(own).__name__})"
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}… [{len(text) - MAX_CHARS} characters left out]"
    return f"{name}: {text}" if text else name


def place_of(error: BaseException) -> str:
    """Return the file and line that raised an error, such as ` (my_env.py, line 12)`, for the code's author."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


@contextmanager
def as_usage_error(what: str) -> Iterator[None]:
    """Convert exceptions raised in the block to a one-line `UsageError` that begins with `what` and names the line."""
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        raise UsageError(f"{what}: {describe(error)}{place_of(error)}") from error


def for_future(error: BaseException) -> Exception:
    """Return `error` in a form that a future can hold and that ends no event loop when raised again."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return InfrastructureError(describe(error))


is_foreign: ContextVar[bool] = ContextVar("is_foreign", default=False)
"""Whether the running task plays an episode or was started by a task that does."""


async def caught(work: Callable[[], Awaitable[_T]]) -> _T | BaseException:
    """Await `work()`; return its result or exception. A task that raised `SystemExit` would end the event loop."""
    is_foreign.set(True)
    try:
        return await work()
    except BaseException as error:
        return error


def _ctrl_c_raises() -> bool:
    """Whether Ctrl-C raises `KeyboardInterrupt` here. Under `asyncio.run` it cancels the main task instead."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


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
