"""Distinguishes exceptions raised by foreign code (an environment's hooks, a policy) from the caller ending the work.

`SystemExit`, `CancelledError`, `GeneratorExit` and the like are not `Exception`s. Raised inside a task, they end the
event loop or look like a cancellation. Here they fail one episode like any other error, unless the caller really
cancels, interrupts or closes the work.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from agentgym.errors import AgentGymError, InfrastructureError, UsageError

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
