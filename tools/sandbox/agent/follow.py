"""Supervises one run: reads its output, feeds its input, and enforces its limits."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentgym.tools.sandbox.agent.capture import Capture
from agentgym.tools.sandbox.agent.endings import CellEnd

GRACE_S = 0.05
"""Seconds to wait for output from background processes that keep it open."""
_TICK_S = 0.005
_SOON_MS = 5
_ENDED_POLL = select.POLLIN | select.POLLHUP | select.POLLERR


class DriverGone(Exception):
    """The driver closed the control connection."""


class OomKills(Protocol):
    """Detects whether the kernel killed a process of the sandbox for its memory."""

    def watch(self) -> None:
        """Reset the count."""

    def happened(self) -> bool:
        """Return whether it has happened since `watch`."""
        ...


class Limiter(Protocol):
    """Checks periodically whether a run exceeds a limit that the kernel does not enforce."""

    def pause(self) -> float:
        """Return the seconds until the next check."""
        ...

    def breach(self) -> str:
        """Return the name of an exceeded limit, or `""`."""
        ...


class NoOomKills:
    """Used where OOM kills cannot be detected."""

    def watch(self) -> None:
        """Do nothing."""

    def happened(self) -> bool:
        """Return false."""
        return False


class Feed:
    """The write end of a run's stdin, and the input that remains to be written."""

    def __init__(self, fd: int, data: bytes):
        os.set_blocking(fd, False)
        self.fd = fd
        self._remaining = memoryview(data)
        self.open = True
        self.write()

    def write(self) -> None:
        """Write what fits; close the pipe once everything is written or the reader is gone."""
        try:
            while self._remaining:
                self._remaining = self._remaining[os.write(self.fd, self._remaining) :]
        except BlockingIOError:
            return
        except OSError:
            pass  # the run has stopped reading, which it may do
        self.close()

    def close(self) -> None:
        """Close the write end."""
        if self.open:
            self.open = False
            os.close(self.fd)


def pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a child exits, or `None` if unsupported."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def has_ended(pid: int) -> bool:
    """Whether a child has exited, without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def follow(
    pid: int,
    streams: Sequence[Capture],
    end: int | None,
    wall_s: float,
    control: int,
    watch: Limiter,
    feed: Feed | None = None,
    cell: CellEnd | None = None,
) -> str:
    """Wait until a run is done; return `""`, or the name of the limit that it exceeded.

    Args:
        pid: The run's process.
        streams: The streams to read.
        end: A pidfd of that process, if supported.
        wall_s: Time limit in seconds.
        control: The control connection; `DriverGone` is raised when it closes.
        watch: Checks the limits that the kernel does not enforce.
        feed: The run's input.
        cell: Detects the end of a session's cell, whose process keeps running.
    """
    deadline = time.monotonic() + wall_s
    if feed is None and end is not None and _soon(end, control, cell):
        return ""
    poll = select.poll()
    readable = {stream.fd: stream for stream in streams if stream.open}
    for fd in (*readable, *(fd for fd in (end, None if cell is None else cell.fd) if fd is not None)):
        poll.register(fd, select.POLLIN)
    poll.register(control, 0)
    if feed is not None and feed.open:
        poll.register(feed.fd, select.POLLOUT)
    while True:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return "timeout"
        pause = min(remaining_s, watch.pause(), _TICK_S if end is None else remaining_s)
        for fd, event in poll.poll(math.ceil(pause * 1000)):
            if fd == end and event & _ENDED_POLL:
                return ""
            if fd == control:
                raise DriverGone
            if fd in readable:
                _read(readable[fd], fd, poll)
                if readable[fd].flooded:
                    return "output"
            elif cell is not None and fd == cell.fd:
                if cell.read():
                    return ""
                if cell.flooded:
                    return "output"
                if not cell.open:  # from now on only the exit of its process ends the run
                    poll.unregister(fd)
            elif feed is not None and feed.open and fd == feed.fd:
                feed.write()
                if not feed.open:
                    poll.unregister(fd)
        if end is None and has_ended(pid):
            return ""
        breach = watch.breach()
        if breach:
            return breach


def _soon(end: int, control: int, cell: CellEnd | None) -> bool:
    """Whether a run finishes almost immediately: its output can wait that long, and each poll has a cost."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    if cell is not None:
        poll.register(cell.fd, select.POLLIN)
    poll.register(control, 0)
    ready = {fd for fd, _ in poll.poll(_SOON_MS)}
    if control in ready:
        raise DriverGone
    return end in ready or (cell is not None and cell.fd in ready and cell.read())


def _read(stream: Capture, fd: int, poll: select.poll) -> None:
    stream.read()
    if not stream.open:
        poll.unregister(fd)


def drain(streams: Sequence[Capture]) -> None:
    """Read streams to their end, or for a grace period if something keeps them open."""
    for stream in streams:
        stream.drain()
    until = time.monotonic() + GRACE_S
    while True:
        waiting = [stream for stream in streams if stream.open and not stream.flooded]
        remaining_s = until - time.monotonic()
        if not waiting or remaining_s <= 0:
            return
        poll = select.poll()
        for stream in waiting:
            poll.register(stream.fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(math.ceil(remaining_s * 1000))}
        for stream in waiting:
            if stream.fd in ready:
                stream.read()


def outcome(broken: str, status: int, cpu_s: float, limits: Mapping[str, Any], kills: OomKills) -> Mapping[str, Any]:
    """Return how a process ended, as the protocol's fields `ended`, `exit_code` and `signal`."""
    if broken:
        return {"ended": broken, "exit_code": None, "signal": None}
    if os.WIFEXITED(status):
        return {"ended": "exited", "exit_code": os.WEXITSTATUS(status), "signal": None}
    number = os.WTERMSIG(status)
    ended = "signaled"
    if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_s >= limits["cpu_s"]):
        ended = "cpu"
    elif number == signal.SIGXFSZ:
        ended = "file_size"
    elif number == signal.SIGKILL and kills.happened():
        ended = "memory"
    return {"ended": ended, "exit_code": None, "signal": number}
