"""Environments that are played in worker processes and in actors. In a module of their own: each process imports it,
and would wait for what the tests around them need.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.messages import ToolCall
from agentgym.toolset import tool
from tests.counter_env import Counter


class Placed(Counter):
    """Says which process it runs in."""

    max_concurrent = 2

    def details(self) -> dict[str, Any]:
        return {"pid": os.getpid()}


class PlacedOnANode(Placed):
    """Says also which node of a Ray cluster it runs on."""

    def details(self) -> dict[str, Any]:
        import ray  # type: ignore[import-not-found]

        return super().details() | {"node": ray.get_runtime_context().get_node_id()}


class Held(PlacedOnANode):
    """Goes on only once it may: there is a file `go` in its folder. Says that it waits by a file of its own."""

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
    """Kills its own process the first time that a task is played, and hangs if the task says so."""

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


class Parted(Counter):
    """Hangs for one task; the others go on for longer than it takes to notice that."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(3600 if self.task.id.endswith("/0") else 0.5)
        return "again" if self._turns[:-3] == [] else super().done()

    def solution(self, task: Any) -> Any:
        yield from super().solution(task)
        for _ in range(5):
            yield ToolCall("done")


class Deaf(Counter):
    """Holds up its whole process for one task."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        if self.task.id.endswith("/0"):
            time.sleep(3600)
        return super().done()


class Seizing(Counter):
    """Is never made, and lets nothing else run in its process meanwhile."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        ctypes.PyDLL(None).sleep(3600)


class Unreadable(Counter):
    """Sends what cannot be read at the other end."""

    def start(self, task: Any) -> Any:
        super().start(task)
        return [{"role": "user", "content": task.prompt, "poison": Poison()}]


class Poison:
    def __reduce__(self) -> Any:
        return (_poison, ())


def _poison() -> str:
    raise ValueError("no such class here")


class Accounted(Counter):
    """Knows how many of its kind there are in its process, and takes a while to be made after the first."""

    made = closed = 0

    def __init__(self) -> None:
        super().__init__()
        Accounted.made += 1
        time.sleep(0.3 * (Accounted.made > 1))

    def release(self) -> None:
        Accounted.closed += 1

    def details(self) -> dict[str, Any]:
        return {"there": Accounted.made - Accounted.closed}


class Drawing(Counter):
    """Says what the process's own generators of random numbers draw, which no environment should use."""

    max_concurrent = 1

    def details(self) -> dict[str, Any]:
        return {"drawn": [random.random(), float(np.random.random())]}
