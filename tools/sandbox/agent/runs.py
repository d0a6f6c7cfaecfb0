"""Runs that take one request: a script in a fork of this interpreter, or a program."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentgym.tools.sandbox.agent import child, follow, script
from agentgym.tools.sandbox.agent.beneath import FileError
from agentgym.tools.sandbox.agent.capture import Capture
from agentgym.tools.sandbox.agent.processes import Processes
from agentgym.tools.sandbox.agent.watch import UsageMonitor

NO_END = (int(signal.SIGKILL), 0.0, 0)
"""The assumed wait status of a killed process that the kernel has not released yet: never a success."""


@dataclass
class RunContext:
    """The context that all runs of a sandbox share."""

    folder: str
    """The workspace."""
    control: int
    processes: Processes
    watch: UsageMonitor
    wall: Callable[[], None]
    process_limit: bool
    kills: follow.OomKills

    def at(self, cwd: str) -> str:
        """Return a run's current directory; a relative one is below the workspace."""
        return os.path.normpath(os.path.join(self.folder, cwd))

    def bounds(self, limits: dict[str, Any], **more: bool) -> dict[str, Any]:
        """Return the limits of one process for `child.apply_limits`."""
        return {**limits, "process_limit": self.process_limit, **more}


def pipes(number: int) -> tuple[list[int], list[int]]:
    """Return the read ends and the write ends of `number` new pipes."""
    pairs = [os.pipe() for _ in range(number)]
    return [read for read, _ in pairs], [write for _, write in pairs]


def captures(fds: list[int], limits: dict[str, Any]) -> list[Capture]:
    """Return the captures of stdout, stderr and reply."""
    bounds = (limits["output_bytes"], limits["output_bytes"], limits["reply_bytes"])
    return [Capture(fd, bounds[number], tail=number < 2) for number, fd in enumerate(fds)]


def close_all(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def execute(
    place: RunContext, request: dict[str, Any], blobs: list[bytes], keep: set[int]
) -> tuple[dict[str, Any], list[bytes]]:
    """Run a script or a program to completion, then kill everything it left running; `keep` are the live sessions."""
    code, stdin = blobs
    limits, environment = request["limits"], request.get("env", {})
    folder = place.at(request.get("cwd", "."))
    if request["kind"] == "python":
        body: Callable[[], int] = lambda: script.run(code, folder)  # noqa: E731
    elif request["kind"] == "argv":
        body = lambda: child.execute(request["argv"])  # noqa: E731
    else:
        raise FileError("invalid", f"unknown kind of run {request['kind']!r}")
    read_ends, write_ends = pipes(3)
    stdin_read, stdin_write = os.pipe()
    started_at = time.monotonic()
    place.kills.watch()
    descriptors = {0: stdin_read, 1: write_ends[0], 2: write_ends[1], child.REPLY_FD: write_ends[2]}
    try:
        pid = child.spawn(body, descriptors, environment, folder, place.bounds(limits), place.wall)
    except OSError as error:
        close_all([*read_ends, stdin_write])
        return not_started(error)
    finally:
        close_all([*write_ends, stdin_read])
    streams = captures(read_ends, limits)
    feed = _fed(stdin_write, stdin)
    end = follow.pidfd(pid)
    try:
        broken = follow.follow(pid, streams, end, limits["wall_s"], place.control, place.watch, feed)
    finally:
        if feed is not None:
            feed.close()
        if end is not None:
            os.close(end)
    return _finish(place, pid, streams, broken, limits, started_at, keep)


def _fed(fd: int, data: bytes) -> follow.Feed | None:
    if data:
        return follow.Feed(fd, data)
    os.close(fd)
    return None


def _finish(
    place: RunContext,
    pid: int,
    streams: list[Capture],
    broken: str,
    limits: dict[str, Any],
    started_at: float,
    keep: set[int],
) -> tuple[dict[str, Any], list[bytes]]:
    if broken:
        kill(pid)
    else:
        follow.drain(streams)
    duration = time.monotonic() - started_at
    waited = place.processes.wait(pid)
    place.processes.kill_others(keep)
    for stream in streams:
        stream.drain()
        stream.close()
    status, cpu_s, peak_kb = waited if waited is not None else NO_END
    answer = dict(follow.outcome(broken, status, cpu_s, limits, place.kills))
    return report(answer, streams, duration, cpu_s, peak_kb)


def not_started(error: OSError) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer to a run that could not start a process, because others use up the resources."""
    ended = "memory" if error.errno == errno.ENOMEM else "processes"
    answer = {"ended": ended, "exit_code": None, "signal": None, "duration_s": 0.0, "cpu_s": 0.0, "peak_memory_mb": 0.0}
    return {**answer, "cut": [0, 0]}, [b"", f"cannot start a process: {error.strerror}\n".encode(), b""]


def report(
    answer: dict[str, Any], streams: list[Capture], duration: float, cpu_s: float, peak_kb: int
) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer to a run: how it ended, the resources it used, and its outputs."""
    outputs = [stream.take() for stream in streams]
    answer.update(
        duration_s=round(duration, 6),
        cpu_s=round(cpu_s, 6),
        peak_memory_mb=round(peak_kb / 1024, 3),
        cut=[outputs[0][1], outputs[1][1]],
    )
    return answer, [data for data, _ in outputs]


def kill(pid: int) -> None:
    """Kill a child and its process group."""
    for target in (-pid, pid):
        with suppress(OSError):
            os.kill(target, signal.SIGKILL)
