"""Starts worker processes: by forking a template where that is safe, else one by one."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from agentgym.base.interpreters import command_of
from agentgym.rollout.workers.template import REPORT, Event

EXIT_S = 2.0
"""Seconds for a process to exit after its work before it is killed."""

_MOST_WAIT_S = 0.16
"""Longest time in seconds between two checks whether a process has ended."""

own_sockets: WeakSet[socket.socket] = WeakSet()
"""This process's ends of the sockets. Forked children close them: otherwise workers would outlive this process."""


def _drop_sockets() -> None:
    for end in list(own_sockets):
        end.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_sockets)


class Child(Protocol):
    """A started process."""

    @property
    def pid(self) -> int | None:
        """The process's id, once it is known."""
        ...

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        ...

    async def ended(self) -> int | None:
        """Wait until the process has ended; return its exit status, if known."""
        ...


class Starter(Protocol):
    """Starts processes that serve on a socket."""

    @property
    def works(self) -> bool:
        """Whether it can start further processes."""
        ...

    def start(self, descriptor: int) -> Child:
        """Start a process for the socket with this descriptor. The caller may close its copy afterwards."""
        ...

    async def close(self) -> None:
        """Release the resources for starting processes, after these have ended."""
        ...


def make_starter() -> Starter:
    """Return the starter for this system. Only on Linux are forks safe regardless of imported modules."""
    return Template() if sys.platform == "linux" else OneByOne()


class OneByOne:
    """Starts each process on its own."""

    works = True

    def start(self, descriptor: int) -> Child:
        """Start a process."""
        return _Spawned(_popen("child", descriptor))

    async def close(self) -> None:
        """Do nothing."""


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]):
        self._process, self.pid = process, process.pid

    def kill(self) -> None:
        self._process.kill()

    async def ended(self) -> int:
        wait_s = 0.01
        while (code := self._process.poll()) is None:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MOST_WAIT_S)
        return code


class Template:
    """The process that worker processes are forked from."""

    def __init__(self) -> None:
        self.works = True
        self._unborn: deque[_Forked] = deque()
        self._unsent: deque[socket.socket] = deque()
        """Descriptors still to be sent: the template does not read its socket while it imports."""
        self._living: dict[int, _Forked] = {}
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        own_sockets.add(self._control)
        with theirs:
            self._process = _popen("template", theirs.fileno())
        self._loop.add_reader(self._control, self._hear)

    def start(self, descriptor: int) -> Child:
        """Fork a process, as soon as everything has been imported."""
        forked = _Forked(self._loop.create_future())
        if not self.works:
            forked.has_ended(None)
            return forked
        copy = socket.socket(fileno=os.dup(descriptor))
        own_sockets.add(copy)
        self._unsent.append(copy)
        self._unborn.append(forked)
        self._send()
        return forked

    async def close(self) -> None:
        """End the template."""
        self._lose()
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await _Spawned(self._process).ended()
        self._process.kill()
        await _Spawned(self._process).ended()

    def _send(self) -> None:
        """Send as many descriptors as the socket accepts, and the rest later."""
        try:
            while self._unsent:
                socket.send_fds(self._control, [b"f"], [self._unsent[0].fileno()])
                self._unsent.popleft().close()
        except BlockingIOError:
            self._loop.add_writer(self._control, self._send)
        except OSError:
            self._lose()
        else:
            self._loop.remove_writer(self._control)

    def _hear(self) -> None:
        try:
            report = self._control.recv(REPORT.size)
        except BlockingIOError:
            return
        except OSError:
            report = b""
        if not report:
            self._lose()
            return
        event, pid, code = REPORT.unpack(report)
        if event == Event.STARTED:
            self._living[pid] = self._unborn.popleft()
            self._living[pid].is_born(pid)
        else:
            self._living.pop(pid).has_ended(code)

    def _lose(self) -> None:
        """Stop starting processes, and report all unreported ones as ended."""
        if not self.works:
            return
        self.works = False
        self._loop.remove_reader(self._control)
        self._loop.remove_writer(self._control)
        self._control.close()
        while self._unsent:
            self._unsent.popleft().close()
        for forked in [*self._unborn, *self._living.values()]:
            forked.has_ended(None)
        self._unborn.clear()
        self._living.clear()


class _Forked:
    """A process forked from a template, which reaps it."""

    def __init__(self, code: asyncio.Future[int | None]):
        self.pid: int | None = None
        self._code = code
        self._unwanted = False

    def kill(self) -> None:
        self._unwanted = True
        # The report of an end arrives before the system can reuse the id.
        has_ended = self._code.done() and self._code.result() is not None
        if self.pid is not None and not has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def ended(self) -> int | None:
        return await asyncio.shield(self._code)

    def is_born(self, pid: int) -> None:
        """Note the id."""
        self.pid = pid
        if self._unwanted:
            self.kill()

    def has_ended(self, code: int | None) -> None:
        """Note the exit status; `None` if it will never be known."""
        if not self._code.done():
            self._code.set_result(code)


def _popen(program: str, descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command_of(f"agentgym.rollout.workers.{program}", str(descriptor)),
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
    )
