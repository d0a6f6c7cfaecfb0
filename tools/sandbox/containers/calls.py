"""Runs a program in a container by `docker exec`, with bounded output and a deadline, and kills everything afterwards.

Docker cannot stop an exec, and closing its connection does not stop it either. So all processes of the
sandbox's user are killed from inside, by that user; the container's main program belongs to another user.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox.containers.daemon import Daemon, Demultiplexer, docker_errors, raw_socket
from agentgym.tools.sandbox.containers.removal import remove

_KILL = ("sh", "-c", "kill -9 -1")
_KILLED = (0, 1, 137)
"""The kill command's exit codes: it killed processes, found none, or was killed by another kill command."""
_KILL_PROCESSES = 32
"""Additional processes for the kill command when the limit is reached: the daemon starts it with many threads."""
_POLL_S = 0.1
_GRACE_S = 5.0
_LATE_S = 2.0
"""Maximum seconds to wait for the remaining output of a program that has ended."""
_FLOOD = 64
"""A run is stopped if its output exceeds the kept size by this factor."""


@dataclass(frozen=True)
class Call:
    """A program to run in a container."""

    argv: Sequence[str]
    user: str
    cwd: str
    wall_s: float
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    output_bytes: int = 64_000


@dataclass(frozen=True)
class ContainerCallOutcome:
    """The result of a call. `exit_code` follows the shell's convention: 128 and more for a signal."""

    stdout: bytes
    stderr: bytes
    cut: tuple[int, int]
    exit_code: int
    duration_s: float
    timed_out: bool = False
    flooded: bool = False
    lost: bool = False
    """Whether the container had to be killed to stop its processes."""


class BoundedOutput:
    """The beginning and the end of a stream."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Add the next piece."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 8 * self._half:
            del self._tail[: -self._half]

    @property
    def cut(self) -> int:
        """The number of bytes left out."""
        return max(0, self.total - len(self._head) - self._half)

    def bytes(self) -> bytes:
        """Return the kept bytes, with a note where bytes are missing."""
        if not self.cut:
            return bytes(self._head + self._tail)
        return bytes(self._head) + b"\n[... %d bytes cut ...]\n" % self.cut + bytes(self._tail[-self._half :])


def run_call(daemon: Daemon, container: str, call: Call) -> ContainerCallOutcome:
    """Run a program in the container until it exits or its deadline passes, then kill everything else there."""
    started_at = time.monotonic()
    exec_id, connection = start_call(daemon, container, call)
    with connection:
        end = Exchange(daemon, exec_id, connection, call).run()
        duration_s = time.monotonic() - started_at
        exit_code = _end_all(daemon, container, exec_id, call.user, end)
    return ContainerCallOutcome(
        stdout=end.outputs[0].bytes(),
        stderr=end.outputs[1].bytes(),
        cut=(end.outputs[0].cut, end.outputs[1].cut),
        exit_code=137 if exit_code is None else exit_code,
        duration_s=duration_s,
        timed_out=end.timed_out,
        flooded=end.flooded,
        lost=exit_code is None,
    )


def start_call(daemon: Daemon, container: str, call: Call) -> tuple[str, socket.socket]:
    """Start a program; return the id of its `docker exec` and the connection to it. Both outputs are multiplexed."""
    with docker_errors(f"cannot run a program in container {container[:12]}"):
        exec_id = daemon.api.exec_create(
            container,
            list(call.argv),
            stdin=True,
            environment=dict(call.env),
            workdir=call.cwd or None,
            user=call.user,
        )["Id"]
        return exec_id, raw_socket(daemon.api.exec_start(exec_id, socket=True))


def _end_all(daemon: Daemon, container: str, exec_id: str, user: str, end: Exchange) -> int | None:
    """Kill all of the user's processes; return the program's exit code, or `None` if the container was killed."""
    try:
        try:
            _kill_all(daemon, container, user, end)
        except InfrastructureError:
            # The sandbox may have as many processes as it is allowed, which leaves none for the kill.
            with _more_processes(daemon, container):
                _kill_all(daemon, container, user, end)
        return exit_code_of(daemon, exec_id)
    except InfrastructureError:
        # For example, a program that keeps forking takes the additional processes as well.
        remove(daemon, container)
        return None


def _kill_all(daemon: Daemon, container: str, user: str, end: Exchange) -> None:
    """Kill all of the user's processes in the container."""
    with docker_errors(f"cannot kill the processes in container {container[:12]}"):
        exec_id = daemon.api.exec_create(container, list(_KILL), user=user)["Id"]
        daemon.api.exec_start(exec_id, detach=True)
    # The daemon starts nothing in a container whose output is stuck, so read the output first.
    end.drain()
    code = exit_code_of(daemon, exec_id)
    if code not in _KILLED:
        raise InfrastructureError(f"the command that kills the processes in a container ended with exit code {code}")


@contextmanager
def _more_processes(daemon: Daemon, container: str) -> Iterator[None]:
    """Allow a container some more processes for a while."""
    with docker_errors(f"cannot inspect container {container[:12]}"):
        limit = daemon.api.inspect_container(container)["HostConfig"]["PidsLimit"]
    _limit_processes(daemon, container, limit + _KILL_PROCESSES)
    try:
        yield
    finally:
        _limit_processes(daemon, container, limit)


def _limit_processes(daemon: Daemon, container: str, limit: int) -> None:
    api: Any = daemon.api
    with docker_errors(f"cannot change the process limit of container {container[:12]}"):
        # `update_container` has no argument for this limit.
        url = api._url("/containers/{0}/update", container)
        api._raise_for_status(api._post_json(url, data={"PidsLimit": limit}))


def exit_code_of(daemon: Daemon, exec_id: str) -> int:
    """Return the exit code of a program that has exited, or exits within a moment."""
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        with docker_errors("cannot inspect a program in a container"):
            state = daemon.api.exec_inspect(exec_id)
        if not state["Running"] and state["ExitCode"] is not None:
            return state["ExitCode"]
        time.sleep(0.02)
    raise InfrastructureError("a program in a container did not exit after it was killed")


class Exchange:
    """Exchanges data with a program: writes stdin and reads both outputs concurrently."""

    def __init__(self, daemon: Daemon, exec_id: str, connection: socket.socket, call: Call) -> None:
        """Prepare an exchange over the connection of a started `docker exec`."""
        self._daemon = daemon
        self._exec_id = exec_id
        self._socket = connection
        self._socket.setblocking(False)
        self._stdin = memoryview(call.stdin)
        self._deadline = time.monotonic() + call.wall_s
        self._bound = call.output_bytes * _FLOOD
        self.outputs = (BoundedOutput(call.output_bytes), BoundedOutput(call.output_bytes))
        self._pieces = Demultiplexer(self._take)
        self._open = True
        self.timed_out = False
        self.flooded = False

    def run(self) -> Exchange:
        """Exchange data until the program has exited or must be killed."""
        self._half_close()
        while self._open:
            remaining_s = self._deadline - time.monotonic()
            self.timed_out = remaining_s <= 0
            self.flooded = any(stream.total > self._bound for stream in self.outputs)
            if self.timed_out or self.flooded:
                break
            # A background child keeps the outputs open, so wait for the program itself.
            if not self._step(min(remaining_s, _POLL_S)) and self._has_exited():
                # Its last output may have arrived since.
                while self._open and self._step(0):
                    pass
                break
        return self

    def _has_exited(self) -> bool:
        """Return whether the program has ended; one that Docker has not started yet has no exit code either."""
        state = self._daemon.api.exec_inspect(self._exec_id)
        return not state["Running"] and state["ExitCode"] is not None

    def drain(self) -> None:
        """Read the remaining output after everything was killed."""
        end = time.monotonic() + _GRACE_S
        self._stdin = memoryview(b"")
        while self._open and time.monotonic() < end:
            self._step(_POLL_S)

    def catch_up(self) -> None:
        """Read the last output of a program that has ended: on a busy machine, Docker reports its end first.

        Background processes may keep the outputs open, so this waits only for a moment.
        """
        end = time.monotonic() + _LATE_S
        while self._open and time.monotonic() < end:
            self._step(_POLL_S)

    def _step(self, timeout_s: float) -> bool:
        """Wait for data in either direction; return whether there was any."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._stdin else 0))
        events = sum(event for _, event in poll.poll(timeout_s * 1000))
        if events & select.POLLOUT:
            self._send()
        if events & ~select.POLLOUT:
            self._receive()
        return bool(events)

    def _send(self) -> None:
        try:
            self._stdin = self._stdin[self._socket.send(self._stdin[:65536]) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The program does not read its input, which it may do.
            self._stdin = memoryview(b"")
        self._half_close()

    def _half_close(self) -> None:
        if not self._stdin:
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._pieces.feed(data)
        else:
            self._open = False

    def _take(self, stream: int, data: bytes) -> None:
        self.outputs[0 if stream == 1 else 1].add(data)
