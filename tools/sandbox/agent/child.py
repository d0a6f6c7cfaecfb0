"""From a fork of the agent to the process that runs model-written code: descriptors, limits, environment, signals."""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]
import fcntl
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

REPLY_FD = 3
"""The number under which a run finds its private reply descriptor."""
MAX_FDS = 512
"""The agent itself never has a descriptor at or above this number."""
NOT_STARTED = 126

QUIET = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
"""Signals that the agent keeps blocked, since the model's code could send them."""

_NAMES = frozenset(("CORE", "CPU", "FSIZE", "NOFILE", "NPROC", "AS", "MSGQUEUE", "RTPRIO", "SIGPENDING", "MEMLOCK"))
_LIMITED = [name for name in dir(resource) if name.startswith("RLIMIT_") and name[7:] in _NAMES]
_SIGNALS = 256
"""Queued at one time for the processes of a user; the kernel counts them for all that the user runs."""
_LOCKED = 1 << 16
_NO_CORE = 1
"""Too little for a file. With 0 the kernel would still start a program of the host for what has crashed, if told to."""
_MB = 1 << 20
_HIGH = 64


def spawn(
    body: Callable[[], int],
    descriptors: Mapping[int, int],
    environment: Mapping[str, str],
    folder: str,
    limits: Mapping[str, Any],
    wall: Callable[[], None],
) -> int:
    """Fork a process that becomes the model's and runs `body`; return its process id.

    Args:
        body: What it runs; returns the exit code, or never returns (execve).
        descriptors: Number in the new process → descriptor of this one. All others are closed.
        environment: Variables that its environment has besides those of this process.
        folder: Its current directory.
        limits: Bounds of one process.
        wall: Walls the process in; done first, while it still has the agent's descriptors.
    """
    pid = os.fork()
    if pid:
        return pid
    status = NOT_STARTED
    try:
        os.setsid()
        wall()
        _take_descriptors(descriptors)
        _open_to_signals()
        for name, value in environment.items():
            os.environ[name] = value
        os.chdir(folder)
        bound(limits)
        status = body()
    except BaseException as error:
        _complain(error)
    finally:
        os._exit(status)


def prepare() -> None:
    """In the agent or its zygote, once: let no signal that can be blocked interrupt it; look at what limits it has."""
    # Not by `signal`, which makes a member of an enumeration of every signal in the old mask.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, QUIET)
    for name in _LIMITED:
        _ceiling(getattr(resource, name))


def bound(limits: Mapping[str, Any]) -> None:
    """Set the resource limits of this process. Limits that are already lower stay."""
    _lower(resource.RLIMIT_CORE, _NO_CORE)
    if not limits.get("lasting"):
        cpu = max(1, math.ceil(limits["cpu_s"]))
        _lower(resource.RLIMIT_CPU, cpu, cpu + 1)
    _lower(resource.RLIMIT_FSIZE, limits["file_mb"] * _MB)
    _lower(resource.RLIMIT_NOFILE, limits["open_files"])
    if limits.get("process_limit", True):
        _lower(resource.RLIMIT_NPROC, limits["processes"] + 1)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_AS, limits["memory_mb"] * _MB)
        _lower(resource.RLIMIT_MSGQUEUE, 0)
        _lower(resource.RLIMIT_RTPRIO, 0)
        _lower(resource.RLIMIT_SIGPENDING, _SIGNALS)
        _lower(resource.RLIMIT_MEMLOCK, _LOCKED)


def _lower(kind: int, soft: int, hard: int | None = None) -> None:
    ceiling = _ceiling(kind)
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


@cache
def _ceiling(kind: int) -> int:
    """Return the agent's hard limit, which does not change."""
    return resource.getrlimit(kind)[1]


def _take_descriptors(descriptors: Mapping[int, int]) -> None:
    raised = {target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _HIGH) for target, source in descriptors.items()}
    for target, source in raised.items():
        os.dup2(source, target, inheritable=True)
    close_others(sorted(descriptors), MAX_FDS)


def close_others(kept: Sequence[int], end: int) -> None:
    """Close every descriptor below `end` but those in `kept`, which are in order."""
    first = 0
    for fd in (*kept, end):
        if first < fd:  # an empty range would be taken for one without end
            os.closerange(first, fd)
        first = fd + 1


def _open_to_signals() -> None:
    """Take back what `prepare` did."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def execute(argv: list[str]) -> int:
    """Replace this process by a program; return the shell's exit code for why that failed."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        os.write(2, os.fsencode(f"{argv[0]}: command not found\n"))
        return 127
    except (OSError, ValueError) as error:
        os.write(2, os.fsencode(f"{argv[0]}: {error}\n"))
        return NOT_STARTED


def _complain(error: BaseException) -> None:
    try:
        text = f"the run could not start: {error}\n" if isinstance(error, OSError) else traceback.format_exc()
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # there is nowhere else to say it; the exit code still does
