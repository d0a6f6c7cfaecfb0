"""`Watch`: what a search waits for, and what broke first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from agentgym.errors import InfrastructureError, ToolError
from agentgym.foreign.errors import describe
from agentgym.rollout.failures import Component
from agentgym.rollout.waits import Waits

_T = TypeVar("_T")


class Watch:
    """Names what is awaited, in reports of waits and of failures.

    Args:
        job: The id of the job.
        waits: The waits of the rollout.
    """

    def __init__(self, job: str, waits: Waits):
        self._job, self._waits = job, waits
        self.broken: Component | None = None
        """What broke first."""

    async def on(self, component: Component, key: str, work: Awaitable[_T]) -> _T:
        """Await `work`. A `ToolError` that gets here is an author's bug, not the model's mistake."""
        name = f"{self._job}/{key}"
        self._waits.begin(name, component.value)
        try:
            return await work
        except asyncio.CancelledError:
            raise
        except ToolError as error:
            self.broken = self.broken or component
            raise InfrastructureError(f"a ToolError was raised outside of a tool: {describe(error)}") from error
        except BaseException:
            self.broken = self.broken or component
            raise
        finally:
            self._waits.end(name)
