"""Runs independent calls of one turn concurrently, with the results and effects of running them in order.

All calls are validated before the first one runs. The effects of a call on its episode (rewards, an ending) are held
back until every earlier call has been concluded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import groupby
from types import CoroutineType
from typing import Any

from agentgym.core.engine.threads import blocking
from agentgym.core.messages import ToolCall
from agentgym.core.toolset import Tool, Toolset

Running = MutableMapping[object, tuple[str, float]]
"""Name and start (`time.monotonic`) of every running tool."""


def batches(calls: Sequence[ToolCall], tools: Toolset) -> Iterator[Sequence[ToolCall]]:
    """Yield calls in order: adjacent calls of concurrent tools as one batch, every other call alone."""

    def concurrent(call: ToolCall) -> bool:
        return call.name in tools and tools.get(call.name).concurrent

    for at_once, group in groupby(calls, concurrent):
        if at_once:
            yield list(group)
        else:
            yield from ([call] for call in group)


class ParallelCall:
    """One call of a batch, its result or error, and its effects on the episode.

    Args:
        env: The environment that runs it.
        call: The call.
        tool: Its tool.
    """

    def __init__(self, env: object, call: ToolCall, tool: Tool):
        self.env, self.call, self.tool = env, call, tool
        self.is_valid = False
        """Whether the tool accepted the arguments. Otherwise it does not run."""
        self.effects: list[Callable[[], None]] = []
        self.ran: tuple[float, float] = (0.0, 0.0)
        """When the call began and ended (`time.monotonic`)."""
        self._result: Any = None
        self._error: BaseException | None = None
        try:
            self._work = partial(tool.bound_to(env), **tool.check(call.arguments))
            self.is_valid = True
        except Exception as error:
            self._error = error

    def run(self, running: Running) -> None:
        """Run the call in this thread. Exceptions are kept for `conclude`."""
        with self._deferring(running):
            self._result = self._work()

    async def run_async(self, running: Running) -> None:
        """Run the call on the event loop, in a task of its own. Exceptions are kept for `conclude`."""
        with self._deferring(running):
            result = self._work()
            self._result = await result if type(result) is CoroutineType else result

    @contextmanager
    def _deferring(self, running: Running) -> Iterator[None]:
        """Keep the effects and the error of the code inside, and note that it is running."""
        token = parallel_call.set(self)
        began = time.monotonic()
        running[self] = self.call.name, began
        try:
            yield
        except BaseException as error:
            self._error = error
        finally:
            running.pop(self, None)
            self.ran = began, time.monotonic()
            parallel_call.reset(token)

    def conclude(self) -> Any:
        """Apply the effects of the call, and return its result or raise its exception."""
        for effect in self.effects:
            effect()
        if self._error is not None:
            raise self._error
        return self._result


parallel_call: ContextVar[ParallelCall | None] = ContextVar("parallel_call", default=None)
"""The concurrent call that runs in this thread or task, if any."""


async def run_all(calls: Sequence[ParallelCall], running: Running, *, on_loop: bool) -> None:
    """Run calls concurrently and wait for all of them.

    Args:
        calls: The calls.
        running: Where to note which tools are running.
        on_loop: Whether this runs on an event loop, which must not be blocked.
    """
    if on_loop:
        await asyncio.gather(
            *(
                call.run_async(running) if call.tool.is_async else blocking.run(partial(call.run, running))
                for call in calls
            )
        )
    else:
        blocking.run_together([partial(call.run, running) for call in calls])
