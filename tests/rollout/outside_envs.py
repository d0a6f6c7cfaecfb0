"""Environments of outsiders that are played in worker processes: they start programs, die, and raise what nobody reads.

In a module of their own, which each process imports.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.toolset import tool
from tests.counter_env import AsyncCounter, Counter


class Mute(InfrastructureError):
    """Its text cannot be had, although it is one of our own."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Muted(Counter):
    """Breaks without a word."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        raise Mute


class Locked(Counter):
    """Tells details that no process can send to another."""

    def details(self) -> dict[str, Any]:
        return {"lock": threading.Lock(), "count": self.count}


class Editing(Counter):
    """Keeps the messages that it opened with, and changes them."""

    def start(self, task: Any) -> Any:
        super().start(task)
        self._opening = [{"role": "user", "content": [{"type": "text", "text": "begin"}]}]
        return self._opening

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self._opening[0]["content"][0]["text"] = "changed"
        return super().done()


class Survived(Counter):
    """The first time, starts what lives on, holding all that its process holds, and ends its process."""

    def __init__(self, folder: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._mark = Path(folder) / "died"

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        if not self._mark.exists():
            self._mark.touch()
            if (pid := os.fork()) == 0:
                os.setsid()
                time.sleep(3600)
            self._mark.write_text(str(pid))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().done()


class Deadly(Counter):
    """Ends its process for one task in five, whenever that is played; the others take a while."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(0.1)
        if int(self.task.id.rpartition("/")[2]) % 5 == 0:
            os._exit(9)
        return super().done()


class Leaving(Counter):
    """Waits for a program that it started, whose id it writes down."""

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
    """Does not listen to a cancellation."""

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
    """Asks the event loop for a call that ends the program."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.sleep(0)
        return Counter.done(self)


class Respawning(AsyncCounter):
    """Leaves a task that is started again whenever it ends."""

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        loop = asyncio.get_running_loop()

        def again(_: object = None) -> None:
            if not loop.is_closed():
                loop.create_task(asyncio.sleep(3600)).add_done_callback(again)

        again()
        return Counter.done(self)


class Lingering(AsyncCounter):
    """Leaves a generator that takes for ever to end."""

    async def _pages(self) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(3600)

    @tool
    async def done(self) -> str:
        """Say that the goal is reached."""
        self._left = self._pages()
        await anext(self._left)
        return Counter.done(self)


class Located(Counter):
    """Says which process it runs in, and takes a while."""

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        time.sleep(0.05)
        return super().done()

    def details(self) -> dict[str, Any]:
        return {"pid": os.getpid()}
