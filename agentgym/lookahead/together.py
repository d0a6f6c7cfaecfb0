"""Awaiting several things at once: the first error ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def together(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run coroutines at the same time and return their results in order; raise the first error of any."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
