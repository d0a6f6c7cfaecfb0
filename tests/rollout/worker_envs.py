"""Environments for worker processes and actors.

They have a module of their own, because each process imports it, and the imports of the tests take long.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.toolset import tool
from tests.counter_env import Counter


class Located(Counter):
    """Reports its process id."""

    max_concurrent = 2

    def details(self) -> dict[str, Any]:
        return {"pid": os.getpid()}


class LocatedOnANode(Located):
    """Also reports its node of a Ray cluster."""

    def details(self) -> dict[str, Any]:
        import ray  # type: ignore[import-not-found]

        return super().details() | {"node": ray.get_runtime_context().get_node_id()}


class Waiting(LocatedOnANode):
    """Creates a file in its folder, then waits there for a file `go`."""

    def __init__(self, folder: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._folder = Path(folder)

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        (self._folder / f"waiting-{os.getpid()}-{id(self)}").touch()
        while not (self._folder / "go").exists():
            time.sleep(0.01)
        return super().done()


class Killing(Counter):
    """Kills its process, or hangs, the first time that certain tasks are played."""

    def __init__(self, folder: str, hangs: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self._folder, self._hangs = Path(folder), hangs

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        mark = self._folder / self.task.id.replace("/", "-")
        if self.task.id.endswith(("2", "4")) and not mark.exists():
            mark.touch()
            if self._hangs:
                time.sleep(3600)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().done()


class Deaf(Counter):
    """Blocks its whole process for one task."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        if self.task.id.endswith("/0"):
            time.sleep(3600)
        return super().done()


class Drawing(Counter):
    """Reports numbers from the process's global random generators."""

    max_concurrent = 1

    def details(self) -> dict[str, Any]:
        return {"drawn": [random.random(), float(np.random.random())]}
