"""Misbehaving environments for worker processes: they start programs, die, and raise errors without a text.

They have a module of their own, because each process imports it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agentgym.base.errors import InfrastructureError
from agentgym.core.toolset import tool
from tests.counter_env import AsyncCounter, Counter


class Mute(InfrastructureError):
    """An error of our own kind whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Muted(Counter):
    """Fails without a message."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        raise Mute


class Locked(Counter):
    """Has details that cannot be pickled."""

    def details(self) -> dict[str, Any]:
        return {"lock": threading.Lock(), "count": self.count}


class Editing(Counter):
    """Changes its opening messages later."""

    def start(self, task: Any) -> Any:
        super().start(task)
        self._opening = [{"role": "user", "content": [{"type": "text", "text": "begin"}]}]
        return self._opening

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self._opening[0]["content"][0]["text"] = "changed"
        return super().done()


class Deadly(Counter):
    """Kills its process for one task in five; the others take a while."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(0.1)
        if int(self.task.id.rpartition("/")[2]) % 5 == 0:
            os._exit(9)
        return super().done()


class Leaving(Counter):
    """Starts a program, records its id and waits for it."""

    def __init__(self, folder: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._folder = Path(folder)

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        program = subprocess.Popen(["sleep", "3600"])
        (self._folder / str(program.pid)).touch()
        program.wait()
        return ""


class Unheeding(AsyncCounter):
    """Ignores its cancellation."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        while True:
            try:
                await asyncio.sleep(3600)
            except BaseException:
                continue


class Masking(AsyncCounter):
    """Answers its cancellation with another error."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ConnectionError("half a reply") from None
        return ""


class Stopping(AsyncCounter):
    """Stops the event loop that it runs on."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return Counter.done(self)


class Exiting(AsyncCounter):
    """Schedules a call that exits the program."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.sleep(0)
        return Counter.done(self)
