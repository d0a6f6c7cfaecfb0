"""The fork server: a clean, preloaded interpreter that forks an agent for every sandbox. It runs no model's code.

It is started by exec, so nothing of the driver's memory is in it; it reads one message at a time from a private socket
(`start` with the sandbox's connection, `end`), answers nothing, and dies when the driver does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

from agentgym.tools.sandbox.agent import child, control, start

MAX_MESSAGE = 1 << 17
_REAP_MS = 1000


class Walls(Protocol):
    """How a tier makes sandboxes."""

    holds_memory: bool
    """Whether the kernel bounds the memory of a sandbox as a whole."""
    descriptors: list[int]
    """What a sandbox's process needs besides its connection."""

    def prepare(self) -> None:
        """Do once what all sandboxes share."""

    def fork(self, request: dict[str, Any]) -> int:
        """Fork a sandbox's process, as `os.fork` does."""
        ...

    def serve(self, connection: control.Control, request: dict[str, Any]) -> None:
        """In the new process: build the walls, then be the agent."""

    def forget(self, request: dict[str, Any]) -> None:
        """Remove what is left of a sandbox after its processes have ended."""

    def close(self) -> None:
        """Remove what all sandboxes shared."""


class Cleaning(Walls, Protocol):
    """A tier whose sandboxes leave something behind when their agent ends."""

    def left_over(self, live: Iterable[int]) -> None:
        """End what no agent looks after any more; `live` are the agents that still do."""

    def clean_up(self, request: dict[str, Any]) -> None:
        """In a process of its own, before `forget`: end and remove what an agent left."""


class Entry:
    """A process that the zygote has forked: an agent, or what cleans up after one."""

    def __init__(self, pid: int, request: dict[str, Any], done: int):
        self.pid = pid
        self.request = request
        self.done = done
        self.end = os.pidfd_open(pid)


class Zygote:
    """Serves the driver until it goes away.

    Args:
        driver: SEQPACKET socket to it.
        alive: A pidfd of the driver; readable once it has ended.
        walls: The tier.
        cleaning: The same, if its sandboxes leave something behind.
    """

    def __init__(self, driver: socket.socket, alive: int, walls: Walls, cleaning: Cleaning | None):
        self._driver = driver
        self._alive = alive
        self._walls = walls
        self._cleaning = cleaning
        self._agents: dict[int, Entry] = {}
        self._cleaners: list[Entry] = []

    def serve(self) -> None:
        """Take messages and collect ended agents; at the end, end all."""
        while self._step():
            pass
        for name in list(self._agents):
            self._kill(name)
        for name in list(self._agents):
            self._collect(name)
        for cleaner in list(self._cleaners):
            self._cleaned(cleaner)
        self._walls.close()

    def _step(self) -> bool:
        poll = select.poll()
        agents = {entry.end: name for name, entry in self._agents.items()}
        cleaners = {entry.end: entry for entry in self._cleaners}
        for fd in (self._driver.fileno(), self._alive, *agents, *cleaners):
            poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(None if self._cleaning is None else _REAP_MS)]
        for fd in ready:
            if fd in agents:
                self._collect(agents[fd])
            elif fd in cleaners:
                self._cleaned(cleaners[fd])
        if self._cleaning is not None:
            self._cleaning.left_over([entry.pid for entry in (*self._agents.values(), *self._cleaners)])
        if self._alive in ready:
            return False
        return self._driver.fileno() not in ready or self._message()

    def _message(self) -> bool:
        try:
            data, fds, flags, _ = socket.recv_fds(self._driver, MAX_MESSAGE, 2)
        except OSError:
            return False
        if not data or flags & socket.MSG_TRUNC:
            return False
        request = json.loads(data)
        if request["op"] == "start":
            self._start(request, *fds)
        else:
            self._kill(request["id"])
        return True

    def _start(self, request: dict[str, Any], connection: int, done: int) -> None:
        try:
            pid = self._walls.fork(request)
        except OSError as error:
            _explain(control.Control(connection, connection), error)
            os.close(connection)
            os.close(done)
            return
        if pid == 0:
            self._become(request, connection)
        os.close(connection)
        self._agents[request["id"]] = Entry(pid, request, done)

    def _become(self, request: dict[str, Any], connection: int) -> None:
        """In the new process: be the agent, and never return."""
        try:
            agent = control.take_over(connection, connection, also=self._walls.descriptors)
            try:
                self._walls.serve(agent, request)
            except (OSError, ValueError, KeyError, TypeError) as error:
                _explain(agent, error)
        finally:
            os._exit(0)

    def _kill(self, name: int) -> None:
        if name in self._agents:
            with suppress(OSError):
                os.kill(self._agents[name].pid, signal.SIGKILL)

    def _collect(self, name: int) -> None:
        """Take note of the end of an agent; what waits for it learns by the closing of `done`."""
        agent = self._agents.pop(name)
        _wait(agent)
        pid = -1 if self._cleaning is None else os.fork()
        if self._cleaning is None:
            self._walls.forget(agent.request)
            os.close(agent.done)
        elif pid == 0:
            try:
                self._cleaning.clean_up(agent.request)
            finally:
                os._exit(0)
        else:
            self._cleaners.append(Entry(pid, agent.request, agent.done))

    def _cleaned(self, cleaner: Entry) -> None:
        self._cleaners.remove(cleaner)
        _wait(cleaner)
        self._walls.forget(cleaner.request)
        os.close(cleaner.done)


def _wait(entry: Entry) -> None:
    with suppress(ChildProcessError):  # it may have been collected among the orphans
        os.waitpid(entry.pid, 0)
    os.close(entry.end)


def _explain(agent: control.Control, error: Exception) -> None:
    try:
        agent.send({"error": "internal", "message": str(error)})
    except Exception:
        return


def main(driver: int, alive: int, settings: dict[str, Any]) -> None:
    """Be the zygote over these two descriptors; the first message to the driver says whether that works."""
    os.umask(0o022)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    child.close_others(sorted({0, 1, 2, driver, alive, *settings.get("held", ())}), 1 << 16)
    child.deaf_to_signals()
    connection = socket.socket(fileno=driver)
    connection.set_inheritable(False)
    sys.path += settings["paths"]
    try:
        start.load(settings["preload"])
        walls, cleaning = _walls(settings)
        walls.prepare()
    except (OSError, ImportError) as error:
        connection.send(json.dumps({"error": str(error)}).encode())
        os._exit(1)
    connection.send(json.dumps({"ready": True, "holds_memory": walls.holds_memory}).encode())
    start.settle()
    Zygote(connection, alive, walls, cleaning).serve()
    os._exit(0)


def _walls(settings: dict[str, Any]) -> tuple[Walls, Cleaning | None]:
    if settings["tier"] == "namespaces":
        from agentgym.tools.sandbox.agent.jail import Jail

        return Jail(settings), None
    from agentgym.tools.sandbox.agent.fence import Fence

    fence = Fence(settings)
    return fence, fence
