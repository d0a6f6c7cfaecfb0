"""Groups the calls of one turn into concurrent batches and runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from agentgym.messages import ToolCall
from agentgym.toolset import Toolset

_T = TypeVar("_T")


def batches(calls: Sequence[ToolCall], tools: Toolset) -> Iterator[Sequence[ToolCall]]:
    """Yield calls in order: adjacent calls of concurrent tools as one batch, every other call alone."""

    def concurrent(call: ToolCall) -> bool:
        return call.name in tools and tools.get(call.name).concurrent

    for at_once, some in groupby(calls, concurrent):
        if at_once:
            yield list(some)
        else:
            yield from ([call] for call in some)


async def together(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Await coroutines concurrently and return their results in order. All finish before an error is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]
