"""`Shell`: a bash in a machine that keeps its folder, variables and background jobs from one command to the next."""

from __future__ import annotations

import re
import secrets
import select
import shlex
import socket
import time
from dataclasses import dataclass

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox.containers.calls import BoundedOutput, Call, start_call
from agentgym.tools.sandbox.containers.daemon import Demultiplexer
from agentgym.tools.terminal.machine import MARK, Machine

_FLOOD = 64
"""A command is stopped if its output exceeds the kept size by this factor."""
_STOPPING_S = 3.0
_POLL_S = 0.5


@dataclass(frozen=True)
class CommandOutput:
    """A command's output, and how it ended."""

    output: str
    """Stdout and stderr interleaved; a long output loses its middle."""
    exit_code: int | None
    """`None` if the command ended the shell, or was stopped."""
    stopped: str = ""
    """The limit that stopped it: `"time"`, `"output"`, or empty."""
    restarted: bool = False
    """Whether the shell is gone: the next command starts another one, in the first folder."""


class Shell:
    """A live bash. It is restarted if a command has ended it.

    Args:
        machine: Where it runs.
        user: Its user; that of the image if empty.
        cwd: The folder that it starts in; that of the image if empty.
        output_bytes: Bytes to keep of what a command prints.
    """

    def __init__(self, machine: Machine, *, user: str = "", cwd: str = "", output_bytes: int = 64_000):
        self._machine, self._user, self._cwd, self._output_bytes = machine, user, cwd, output_bytes
        self._connection: socket.socket | None = None

    def run(self, command: str, wall_s: float) -> CommandOutput:
        """Run a command.

        Args:
            command: Any bash, also of several lines.
            wall_s: Seconds after which it and its processes are killed.

        Raises:
            MachineLost: The machine is gone.
            InfrastructureError: Docker does not work.
        """
        try:
            connection = self._connection or self._open()
            exchange = _Command(connection, command, self._output_bytes)
            stopped = exchange.until(time.monotonic() + wall_s)
            if stopped:
                self._machine.kill(exchange.mark)
                exchange.until(time.monotonic() + _STOPPING_S)
        except OSError as error:
            self.close()
            self._machine.check_alive(error)
            raise InfrastructureError(f"the connection to a shell broke: {error}") from error
        if not exchange.done:
            self.close()
            self._machine.check_alive(None)
        exit_code = None if stopped else exchange.exit_code
        return CommandOutput(exchange.output, exit_code, stopped, restarted=not exchange.done)

    def close(self) -> None:
        """End the shell; its background processes keep running."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> socket.socket:
        call = Call(
            ["bash", "--noprofile", "--norc"],
            self._user,
            self._cwd,
            0,
            env={**self._machine.spec.environment, MARK: "shell"},
        )
        try:
            _, self._connection = start_call(self._machine.daemon, self._machine.id, call)
        except InfrastructureError as error:
            self._machine.check_alive(error)
            raise
        self._connection.setblocking(False)
        self._connection.sendall(b"exec 2>&1\n")
        return self._connection


class _Command:
    """One command: sends it to the shell and reads its output up to the shell's end line."""

    def __init__(self, connection: socket.socket, command: str, output_bytes: int):
        self.mark = secrets.token_hex(8)
        self.exit_code: int | None = None
        self.done = False
        self._connection = connection
        self._end = re.compile(rb"\n" + self.mark.encode() + rb" (\d+)\n")
        self._captured = BoundedOutput(output_bytes)
        self._most = output_bytes * _FLOOD
        self._pending = b""
        self._open = True
        self._pieces = Demultiplexer(lambda _, data: self._take(data))
        # The mark in the environment distinguishes the command's processes from those of earlier ones.
        script = (
            f"export {MARK}={self.mark}; eval {shlex.quote(command)} </dev/null\nprintf '\\n%s %d\\n' {self.mark} $?\n"
        )
        self._to_send = memoryview(script.encode("utf-8", "replace"))

    @property
    def output(self) -> str:
        """The output so far."""
        return self._captured.bytes().decode("utf-8", "replace")

    def until(self, deadline: float) -> str:
        """Read until the command ends; return the exceeded limit (`"time"`, `"output"`), or an empty string."""
        while self._open and not self.done:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or self._captured.total > self._most:
                return "time" if remaining_s <= 0 else "output"
            self._step(min(remaining_s, _POLL_S))
        if not self.done:
            self._captured.add(self._pending)
        return ""

    def _step(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._to_send else 0))
        events = sum(event for _, event in poll.poll(timeout_s * 1000))
        if events & select.POLLOUT:
            self._to_send = self._to_send[self._connection.send(self._to_send[:65536]) :]
        if events & ~select.POLLOUT:
            data = self._connection.recv(65536)
            self._open = bool(data)
            self._pieces.feed(data)

    def _take(self, data: bytes) -> None:
        """Keep the output except for the last bytes, which may be the beginning of the shell's end line."""
        self._pending += data
        match = self._end.search(self._pending)
        if match is not None:
            self._captured.add(self._pending[: match.start()])
            self.exit_code, self.done = int(match[1]), True
            return
        held = len(self.mark) + 8
        self._captured.add(self._pending[:-held])
        self._pending = self._pending[-held:]
