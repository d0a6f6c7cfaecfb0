"""The parent's end of a DuckDB worker process: starts it, exchanges frames with a deadline, kills it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

from agentgym.errors import InfrastructureError
from agentgym.tools.database import wire

START_TIMEOUT_S = 60.0
MAX_REPLY_BYTES = 1 << 28
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


class WorkerDied(Exception):
    """The process died; `signal` is the signal that killed it (0: it exited)."""

    def __init__(self, signal: int):
        super().__init__(f"the DuckDB worker died (signal {signal})" if signal else "the DuckDB worker exited")
        self.signal = signal


class WorkerTimeout(Exception):
    """The process did not reply in time."""


class WorkerProcess:
    """A running worker. Its owner's lock must be held."""

    def __init__(self) -> None:
        try:
            self.directory = tempfile.mkdtemp(prefix="agentgym-duckdb-")
            self._log = os.path.join(self.directory, "worker.log")
            self._process = _start(self.directory, self._log)
        except OSError as error:
            raise InfrastructureError(f"cannot start a DuckDB worker: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._await_start()

    def _await_start(self) -> None:
        try:
            self._receive(time.monotonic() + START_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout, ValueError) as error:
            with open(self._log, errors="replace") as log:
                last = (log.read().strip().splitlines() or ["no output"])[-1]
            self.kill()
            raise InfrastructureError(f"the DuckDB worker did not start: {error or 'timeout'}; {last}") from error

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def request(self, message: wire.Message, timeout_s: float) -> wire.Message:
        """Send `message` and return the reply; raise `WorkerDied` or `WorkerTimeout`."""
        deadline = time.monotonic() + timeout_s
        self._send(wire.pack(message), deadline)
        return self._receive(deadline)

    def kill(self) -> None:
        """Kill the process and remove its directory."""
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def disown(self) -> None:
        """In a forked child: forget the parent's process without closing its pipe."""
        self._stdin.close()
        self._stdout.close()
        self._process.returncode = 0

    def _send(self, data: bytes, deadline: float) -> None:
        fd, view = self._stdin.fileno(), memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                self._wait(fd, select.POLLOUT, deadline)
            except BrokenPipeError:
                raise self._death() from None

    def _receive(self, deadline: float) -> wire.Message:
        (size,) = wire.HEADER.unpack(self._read(wire.HEADER.size, deadline))
        if size > MAX_REPLY_BYTES:
            raise ValueError(f"the DuckDB worker announced a reply of {size} bytes")
        return wire.unpack(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytearray:
        fd, data = self._stdout.fileno(), bytearray()
        while len(data) < size:
            self._wait(fd, select.POLLIN, deadline)
            chunk = os.read(fd, min(size - len(data), 1 << 20))
            if not chunk:
                raise self._death()
            data += chunk
        return data

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise WorkerTimeout("no reply in time")

    def _death(self) -> WorkerDied:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return WorkerDied(-code if code < 0 else 0)


def _start(directory: str, log: str) -> subprocess.Popen[bytes]:
    with open(log, "wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "agentgym.tools.database.duckdb.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            cwd=directory,
            env=_environment(),
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    """Return only the variables that the worker needs to find Python's modules, without the parent's secrets."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    paths = [os.path.abspath(path or os.curdir) for path in sys.path]
    return environment | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",
    }
