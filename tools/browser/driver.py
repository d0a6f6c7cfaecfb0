"""Playwright's driver process (node), which only this process keeps alive."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.errors import require

if TYPE_CHECKING:
    from playwright.async_api import Playwright

LAUNCH_S = 60.0
STOP_S = 5.0
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Driver:
    """A running driver; `pid` is `None` where processes cannot be inspected."""

    playwright: Playwright
    pid: int | None

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self.pid is None or _parent(self.pid) == os.getpid()

    async def stop(self) -> None:
        """Stop it, and with it every browser it started."""
        with suppress(Exception):  # it may be dead already, and then fails with bare exceptions
            async with asyncio.timeout(STOP_S):
                await self.playwright.stop()


async def start_driver() -> Driver:
    """Start Playwright's driver. It exits with this process, which is the only one to hold its input pipe."""
    require("playwright", "web")
    from playwright.async_api import async_playwright

    before = _drivers()
    async with asyncio.timeout(LAUNCH_S):
        playwright = await async_playwright().start()
    pid = next(iter(_drivers() - before), None)
    if pid is not None:
        _let_go_in_children(pid)
    return Driver(playwright, pid)


def _let_go_in_children(pid: int) -> None:
    """Redirect the driver's pipes in forked children, which would otherwise keep it alive after this process."""
    its = [name for file, name in _files(str(pid)).items() if file in (0, 1)]
    own = {file: name for file, name in _files("self").items() if name in its and file > 2}

    def let_go() -> None:
        # Not closed: the objects that own these descriptors would later close whatever reuses the numbers.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for file, name in _files("self").items():
            if own.get(file) == name:
                os.dup2(nowhere, file, inheritable=False)
        os.close(nowhere)

    os.register_at_fork(after_in_child=let_go)


def _files(process: str) -> dict[int, str]:
    """Return a process's open pipes and sockets, by descriptor."""
    descriptors = {}
    with suppress(OSError):
        for entry in (PROCESSES / process / "fd").iterdir():
            with suppress(OSError):
                if (name := os.readlink(entry)).startswith(("pipe:", "socket:")):
                    descriptors[int(entry.name)] = name
    return descriptors


def _drivers() -> set[int]:
    """Return the drivers that this process started."""
    drivers = set()
    with suppress(OSError):
        for entry in PROCESSES.iterdir():
            if entry.name.isdigit() and _parent(int(entry.name)) == os.getpid():
                with suppress(OSError):
                    if b"run-driver" in (entry / "cmdline").read_bytes():
                        drivers.add(int(entry.name))
    return drivers


def _parent(pid: int) -> int | None:
    """Return the parent of a live process."""
    with suppress(OSError):
        state, parent = (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
        return None if state in "ZX" else int(parent)
    return None
