"""The driver's end of a zygote: starts it, passes it the connections of new sandboxes, and kills them and it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from itertools import count
from typing import Any

from agentgym.tools.sandbox import bundle, interpreter
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.zygote import MAX_MESSAGE
from agentgym.tools.sandbox.backend import SandboxStartFailed

_READY_S = 60.0
_END_S = 10.0


class Zygote:
    """A running fork server. Thread-safe.

    Args:
        settings: The settings of `agent/zygote.py` and its walls.
        program: Its interpreter.
    """

    def __init__(self, settings: Mapping[str, Any], program: str):
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._numbers = count(1)
        self._running: weakref.WeakSet[SandboxHandle] = weakref.WeakSet()
        self._process, self._socket = _start(settings, program)
        try:
            answer = self._await_ready()
        except BaseException:
            self.close()
            raise
        self.holds_memory = answer.get("holds_memory") is True
        self.own_files = answer.get("own_files") is True

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether it has no sandboxes."""
        return all(running.ended for running in list(self._running))

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._process.pid

    def start(self, request: Mapping[str, Any]) -> tuple[socket.socket, SandboxHandle]:
        """Start an agent; return the driver's end of its connection and a handle that kills it."""
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        running = SandboxHandle(self, next(self._numbers), read)
        self._running.add(running)
        message = wire.encode_header({"op": "start", "id": running.number, **request})
        try:
            if len(message) > MAX_MESSAGE:
                raise SandboxStartFailed(
                    f"the sandbox's settings have {len(message)} bytes, which is too large to send"
                )
            with self._lock:
                socket.send_fds(self._socket, [message], [theirs.fileno(), write])
        except OSError as error:
            ours.close()
            running.forget()
            raise SandboxStartFailed(f"the zygote is gone: {error}") from error
        finally:
            theirs.close()
            os.close(write)
        return ours, running

    def end(self, number: int) -> None:
        """Tell the zygote to kill a sandbox."""
        if os.getpid() != self._owner:
            return
        try:
            with self._lock:
                self._socket.send(wire.encode_header({"op": "end", "id": number}))
        except OSError:
            return  # the zygote is gone, and its sandboxes with it

    def close(self) -> None:
        """Kill it and all its sandboxes."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._socket.close()
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _await_ready(self) -> dict[str, Any]:
        self._socket.settimeout(_READY_S)
        try:
            answer = json.loads(self._socket.recv(MAX_MESSAGE) or b"{}")
        except TimeoutError:
            raise SandboxStartFailed(f"the zygote was not ready within {_READY_S:g} s") from None
        except (OSError, ValueError) as error:
            raise SandboxStartFailed(f"the zygote did not start: {error}") from error
        self._socket.settimeout(None)
        if "ready" not in answer:
            raise SandboxStartFailed(str(answer.get("error", "the zygote exited during startup")))
        return answer


class SandboxHandle:
    """Kills one sandbox of a zygote."""

    def __init__(self, zygote: Zygote, number: int, done: int):
        self.number = number
        self._zygote = zygote
        self._lock = threading.Lock()
        self._done: int | None = done

    @property
    def ended(self) -> bool:
        """Whether it was killed."""
        return self._done is None

    def kill(self) -> None:
        """Kill the sandbox, and wait until it is completely gone."""
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return
        self._zygote.end(self.number)
        poll = select.poll()
        poll.register(done, 0)  # the zygote closes its end of this pipe once everything is gone
        until = time.monotonic() + _END_S
        while not poll.poll(100) and time.monotonic() < until:
            pass
        os.close(done)

    def forget(self) -> None:
        """Close the descriptor of a sandbox that was never started."""
        with self._lock:
            done, self._done = self._done, None
        if done is not None:
            os.close(done)


def _start(settings: Mapping[str, Any], program: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    alive = os.pidfd_open(os.getpid())
    arguments = f"{theirs.fileno()}, {alive}, {dict(settings)!r}"
    source = bundle.started(f"from agentgym.tools.sandbox.agent.zygote import main; main({arguments})")
    try:
        process = subprocess.Popen(
            [program, *interpreter.RUN_STDIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), alive, *settings.get("held", ())),
            cwd="/",
            env=_environment(program),
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise SandboxStartFailed(f"cannot start {program!r}: {error}") from error
    finally:
        theirs.close()
        os.close(alive)
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(source.encode())
    except BrokenPipeError:
        pass  # it exited; the caller notices the missing answer
    return process, ours


def _environment(program: str) -> dict[str, str]:
    environment = interpreter.environment(home="/tmp", tmp="/tmp", links=os.path.dirname(program))
    return {name: value for name, value in environment.items() if name != "PYTHONUNBUFFERED"} | {"LD_BIND_NOW": "1"}
