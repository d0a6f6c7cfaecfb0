"""The fork server: a clean, preloaded interpreter that forks an agent for every sandbox. It never runs a model's code.

It is started by exec, so it has none of the driver's memory; it reads one message at a time from a private socket
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
    """How a tier creates sandboxes."""

    holds_memory: bool
    """Whether the kernel limits the total memory of a sandbox."""
    own_files: bool
    """Whether sandboxes share no file with the host or each other."""

    def prepare(self) -> None:
        """Prepare what all sandboxes share."""

    def fork(self, request: dict[str, Any]) -> tuple[int, Any]:
        """Fork a sandbox's process like `os.fork`; return the process id and the sandbox's resources."""
        ...

    def serve(self, connection: int, request: dict[str, Any], resources: Any, /) -> None:
        """In the new process: build the walls, then run the agent."""

    def forget(self, resources: Any, /) -> None:
        """Release a sandbox's resources after its processes have exited."""

    def close(self) -> None:
        """Remove what all sandboxes share."""


class Cleaning(Walls, Protocol):
    """A tier whose sandboxes may leave something behind when their agent ends."""

    def kill_orphans(self, live: Collection[int]) -> None:
        """Kill processes whose agent is gone; `live` are the live agents."""

    def is_clean(self, resources: Any, live: Collection[int], /) -> bool:
        """Clean up if that is trivial; return whether it was."""
        ...

    def clean_up(self, resources: Any, /) -> None:
        """Kill and remove what an agent left behind; called in a separate process, before `forget`."""


class ForkedProcess:
    """A process forked by the zygote: an agent, or the cleanup after one."""

    def __init__(self, name: int, pid: int, resources: Any, done: int):
        self.name = name
        """The driver's id of an agent's sandbox; 0 for a cleanup."""
        self.pid = pid
        self.resources = resources
        self.done = done
        self.end = os.pidfd_open(pid)


class ForkServer:
    """Serves the driver until it is gone.

    Args:
        driver: SEQPACKET socket to the driver.
        alive: A pidfd of the driver; readable once it has exited.
        walls: The tier.
        cleaning: The same tier, if its sandboxes may leave something behind.
    """

    def __init__(self, driver: socket.socket, alive: int, walls: Walls, cleaning: Cleaning | None):
        self._driver = driver
        self._driver_fd = driver.fileno()
        self._alive = alive
        self._walls = walls
        self._cleaning = cleaning
        self._agents: dict[int, ForkedProcess] = {}
        self._ends: dict[int, ForkedProcess] = {}
        self._message = memoryview(bytearray(MAX_MESSAGE))
        self._poll = select.poll()
        self._poll.register(self._driver_fd, select.POLLIN)
        self._poll.register(alive, select.POLLIN)

    def serve(self) -> None:
        """Handle messages and reap agents; at the end, kill everything."""
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
            self._cleaning.kill_orphans(self._live())
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
            pid, resources = self._walls.fork(request)
        except OSError as error:
            _explain(connection, error)
            os.close(connection)
            os.close(done)
            return
        if pid == 0:
            self._become(request, connection, resources)
        os.close(connection)
        entry = self._agents[request["id"]] = ForkedProcess(request["id"], pid, resources, done)
        self._follow(entry)

    def _become(self, request: dict[str, Any], connection: int, resources: Any) -> None:
        """In the new process: run the agent, and never return."""
        try:
            self._walls.serve(connection, request, resources)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _explain(connection, error)
        finally:
            os._exit(0)

    def _follow(self, entry: ForkedProcess) -> None:
        self._ends[entry.end] = entry
        self._poll.register(entry.end, select.POLLIN)

    def _kill(self, name: int) -> None:
        if name in self._agents:
            with suppress(OSError):
                signal.pidfd_send_signal(self._agents[name].end, signal.SIGKILL)

    def _live(self) -> list[int]:
        return [entry.pid for entry in self._ends.values()]

    def _collect(self, *ended: ForkedProcess) -> None:
        """Handle exited processes. Closing `done` notifies the driver that a sandbox is gone."""
        for entry in ended:
            self._poll.unregister(entry.end)
            del self._ends[entry.end]
            with suppress(ChildProcessError):  # it may have been reaped with the orphans
                os.waitpid(entry.pid, 0)
            os.close(entry.end)
            if not entry.name or not self._clean_up(self._agents.pop(entry.name)):
                self._walls.forget(entry.resources)
                os.close(entry.done)

    def _clean_up(self, agent: ForkedProcess) -> bool:
        """Start a process that cleans up after an agent, if needed; return whether it is."""
        if self._cleaning is None or self._cleaning.is_clean(agent.resources, self._live()):
            return False
        pid = os.fork()
        if pid == 0:
            try:
                self._cleaning.clean_up(agent.resources)
            finally:
                os._exit(0)
        self._follow(ForkedProcess(0, pid, agent.resources, agent.done))
        return True


def _explain(connection: int, error: Exception) -> None:
    try:
        control.Control(connection, connection).send({"error": "internal", "message": str(error)})
    except Exception:  # the driver reports the missing answer, and this process must not die of it
        return


def main(driver: int, alive: int, settings: dict[str, Any]) -> None:
    """Run the zygote on these two descriptors; its first message to the driver says whether it works."""
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
    ready = {"ready": True, "holds_memory": walls.holds_memory, "own_files": walls.own_files}
    connection.send(json.dumps(ready).encode())
    start.set_up(settings["environment"])
    warm.warm_up()
    ForkServer(connection, alive, walls, cleaning).serve()
    os._exit(0)


def _walls(settings: dict[str, Any]) -> tuple[Walls, Cleaning | None]:
    if settings["tier"] == "namespaces":
        from agentgym.tools.sandbox.agent.jail import Jail

        return Jail(settings), None
    from agentgym.tools.sandbox.agent.fence import Fence

    fence = Fence(settings)
    return fence, fence
