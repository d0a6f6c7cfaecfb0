"""The main program of a template: a process that imports what worker processes need, then forks them.

    python -m agentgym.rollout.workers.template DESCRIPTOR

Importing takes most of a worker process's start. A template starts no threads and makes no environments, so its forks
behave like fresh processes. When the other end of its socket is closed, it ends its forks, since one whose environment
blocks everything does not notice that its rollout is gone, and then itself.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from contextlib import suppress
from enum import IntEnum

import numpy as np

from agentgym.rollout.workers import child

GRACE_S = 10.0
"""Seconds for processes to close their environments and exit once their rollout is gone."""


class Event(IntEnum):
    """The kinds of reports of a template."""

    STARTED = 0
    """Reported in the order of the requests."""
    ENDED = 1


REPORT = struct.Struct("!Bqq")
"""An event, the id of the process, and the exit status of one that has ended."""


class _Template:
    """Forks a process for each descriptor that comes through the socket, and reports how they end."""

    def __init__(self, descriptor: int):
        self._control = socket.socket(fileno=descriptor)
        self._ended, waker = os.pipe()
        os.set_blocking(waker, False)
        self._pipe = self._ended, waker
        self._living: set[int] = set()
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup descriptor reports it

    def serve(self) -> None:
        """Serve until the other end of the socket is closed."""
        waiting = selectors.DefaultSelector()
        waiting.register(self._control, selectors.EVENT_READ)
        waiting.register(self._ended, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is not self._control:
                    os.read(self._ended, 4096)
                    self._reap()
                elif (descriptor := self._next_descriptor()) is None:
                    return
                elif (pid := os.fork()) == 0:
                    waiting.close()
                    self._become_worker(descriptor)
                else:
                    os.close(descriptor)
                    self._living.add(pid)
                    self._report(Event.STARTED, pid, 0)

    def end(self) -> None:
        """Wait for the processes, and kill those that do not end."""
        until = time.monotonic() + GRACE_S
        self._reap()
        while self._living and time.monotonic() < until:
            time.sleep(0.05)
            self._reap()
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
        while self._living:
            os.read(self._ended, 4096)
            self._reap()

    def _report(self, event: Event, pid: int, code: int) -> None:
        with suppress(OSError):  # the other end is closed, which the next read will notice
            self._control.send(REPORT.pack(event, pid, code))

    def _next_descriptor(self) -> int | None:
        """Return the descriptor for the next process; `None` at the end."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        except ConnectionError:
            return None
        return descriptors[0] if message else None

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            with suppress(ProcessLookupError, PermissionError):  # its children, before its id can be reused
                os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            self._living.discard(pid)
            self._report(Event.ENDED, pid, os.waitstatus_to_exitcode(status))

    def _become_worker(self, descriptor: int) -> None:
        """Serve as a worker process, and end it."""
        try:
            os.setpgid(0, 0)  # so that programs started by an environment end with it
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for end in self._pipe:
                os.close(end)
            np.random.seed()
            child.serve(descriptor)
        except BaseException:
            traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    child.prepare()
    gc.collect()
    gc.freeze()  # keeps shared memory pages from being copied
    template = _Template(int(sys.argv[1]))
    template.serve()
    template.end()


if __name__ == "__main__":
    main()
