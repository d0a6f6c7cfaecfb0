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
import struct
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Protocol

from agentgym.tools.sandbox.agent import child, control, start, warm, wire

MAX_MESSAGE = 1 << 17
_REAP_MS = 1000
_TRUNCATED, _CLOSE_ON_EXEC = int(socket.MSG_TRUNC), int(socket.MSG_CMSG_CLOEXEC)
_DESCRIPTORS = struct.Struct("2i")
_ROOM = socket.CMSG_SPACE(_DESCRIPTORS.size)


class Walls(Protocol):
    """How a tier makes sandboxes."""

    holds_memory: bool
    """Whether the kernel bounds the memory of a sandbox as a whole."""
    own_files: bool
    """Whether no file that a sandbox can open is the host's or another sandbox's."""

    def prepare(self) -> None:
        """Do once what all sandboxes share."""

    def fork(self, request: dict[str, Any]) -> tuple[int, Any]:
        """Fork a sandbox's process, as `os.fork` does; return what the sandbox has for itself with the process id."""
        ...

    def serve(self, connection: int, request: dict[str, Any], own: Any, /) -> None:
        """In the new process: build the walls, then be the agent."""

    def forget(self, own: Any, /) -> None:
        """Remove what is left of a sandbox after its processes have ended."""

    def close(self) -> None:
        """Remove what all sandboxes shared."""


class Cleaning(Walls, Protocol):
    """A tier whose sandboxes may leave something behind when their agent ends."""

    def left_over(self, live: Collection[int]) -> None:
        """End what no agent looks after any more; `live` are the agents that still do."""

    def is_clean(self, own: Any, live: Collection[int], /) -> bool:
        """Clean up if there is next to nothing to do; return whether there was."""
        ...

    def clean_up(self, own: Any, /) -> None:
        """In a process of its own, before `forget`: end and remove what an agent left."""


class Entry:
    """A process that the zygote has forked: an agent, or what cleans up after one."""

    def __init__(self, name: int, pid: int, own: Any, done: int):
        self.name = name
        """What the driver calls an agent's sandbox; 0 for what cleans up."""
        self.pid = pid
        self.own = own
        self.done = done
        self.end = os.pidfd_open(pid)


class Zygote:
    """Serves the driver until it goes away.

    Args:
        driver: SEQPACKET socket to it.
        alive: A pidfd of the driver; readable once it has ended.
        walls: The tier.
        cleaning: The same, if its sandboxes may leave something behind.
    """

    def __init__(self, driver: socket.socket, alive: int, walls: Walls, cleaning: Cleaning | None):
        self._driver = driver
        self._driver_fd = driver.fileno()
        self._alive = alive
        self._walls = walls
        self._cleaning = cleaning
        self._agents: dict[int, Entry] = {}
        self._ends: dict[int, Entry] = {}
        self._message = memoryview(bytearray(MAX_MESSAGE))
        self._poll = select.poll()
        self._poll.register(self._driver_fd, select.POLLIN)
        self._poll.register(alive, select.POLLIN)

    def serve(self) -> None:
        """Take messages and collect ended agents; at the end, end all."""
        while self._step():
            pass
        for name in list(self._agents):
            self._kill(name)
        while self._ends:
            self._collect(*list(self._ends.values()))
        self._walls.close()

    def _step(self) -> bool:
        ready = [fd for fd, _ in self._poll.poll(None if self._cleaning is None else _REAP_MS)]
        ended = [self._ends[fd] for fd in ready if fd in self._ends]
        self._collect(*ended)
        if self._cleaning is not None and (ended or not ready):
            self._cleaning.left_over(self._live())
        if self._alive in ready:
            return False
        return self._driver_fd not in ready or self._receive()

    def _receive(self) -> bool:
        try:
            size, more, flags, _ = self._driver.recvmsg_into([self._message], _ROOM, _CLOSE_ON_EXEC)
        except OSError:
            return False
        if not size or flags & _TRUNCATED:
            return False
        request = wire.decode_header(bytes(self._message[:size]))
        if request["op"] == "start":
            self._start(request, *_DESCRIPTORS.unpack(more[0][2]))
        else:
            self._kill(request["id"])
        return True

    def _start(self, request: dict[str, Any], connection: int, done: int) -> None:
        try:
            pid, own = self._walls.fork(request)
        except OSError as error:
            _explain(connection, error)
            os.close(connection)
            os.close(done)
            return
        if pid == 0:
            self._become(request, connection, own)
        os.close(connection)
        entry = self._agents[request["id"]] = Entry(request["id"], pid, own, done)
        self._follow(entry)

    def _become(self, request: dict[str, Any], connection: int, own: Any) -> None:
        """In the new process: be the agent, and never return."""
        try:
            self._walls.serve(connection, request, own)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _explain(connection, error)
        finally:
            os._exit(0)

    def _follow(self, entry: Entry) -> None:
        self._ends[entry.end] = entry
        self._poll.register(entry.end, select.POLLIN)

    def _kill(self, name: int) -> None:
        if name in self._agents:
            with suppress(OSError):
                signal.pidfd_send_signal(self._agents[name].end, signal.SIGKILL)

    def _live(self) -> list[int]:
        return [entry.pid for entry in self._ends.values()]

    def _collect(self, *ended: Entry) -> None:
        """Take note of the end of processes; who waits for that of a sandbox learns by the closing of `done`."""
        for entry in ended:
            self._poll.unregister(entry.end)
            del self._ends[entry.end]
            with suppress(ChildProcessError):  # it may have been collected among the orphans
                os.waitpid(entry.pid, 0)
            os.close(entry.end)
            if not entry.name or not self._clean_up(self._agents.pop(entry.name)):
                self._walls.forget(entry.own)
                os.close(entry.done)

    def _clean_up(self, agent: Entry) -> bool:
        """Start a process that cleans up after an agent; return whether that is needed."""
        if self._cleaning is None or self._cleaning.is_clean(agent.own, self._live()):
            return False
        pid = os.fork()
        if pid == 0:
            try:
                self._cleaning.clean_up(agent.own)
            finally:
                os._exit(0)
        self._follow(Entry(0, pid, agent.own, agent.done))
        return True


def _explain(connection: int, error: Exception) -> None:
    try:
        control.Control(connection, connection).send({"error": "internal", "message": str(error)})
    except Exception:
        return


def main(driver: int, alive: int, settings: dict[str, Any]) -> None:
    """Be the zygote over these two descriptors; the first message to the driver says whether that works."""
    os.umask(0o022)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    child.close_others(sorted({0, 1, 2, driver, alive, *settings.get("held", ())}), 1 << 16)
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
    told = {"ready": True, "holds_memory": walls.holds_memory, "own_files": walls.own_files}
    connection.send(json.dumps(told).encode())
    start.settle(settings["environment"])
    warm.practise()
    Zygote(connection, alive, walls, cleaning).serve()
    os._exit(0)


def _walls(settings: dict[str, Any]) -> tuple[Walls, Cleaning | None]:
    if settings["tier"] == "namespaces":
        from agentgym.tools.sandbox.agent.jail import Jail

        return Jail(settings), None
    from agentgym.tools.sandbox.agent.fence import Fence

    fence = Fence(settings)
    return fence, fence
