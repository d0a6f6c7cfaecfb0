"""Turns a fork of the agent into the process of a run: descriptors, limits, environment, signals."""

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
"""The number of a run's private reply descriptor."""
MAX_FDS = 512
"""The agent never has a descriptor at or above this number."""
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
"""Signals that the agent blocks, because the model's code could send them."""

_NAMES = frozenset(("CORE", "CPU", "FSIZE", "NOFILE", "NPROC", "AS", "MSGQUEUE", "RTPRIO", "SIGPENDING", "MEMLOCK"))
_LIMITED = [name for name in dir(resource) if name.startswith("RLIMIT_") and name[7:] in _NAMES]
_SIGNALS = 256
"""Maximum queued signals; the kernel counts them per user."""
_LOCKED = 1 << 16
_NO_CORE = 1
"""Too small for a core file. With 0, the kernel would still start the host's core pattern program, if there is one."""
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
    """Fork a process that drops to the run's rights and runs `body`; return its process id.

    Args:
        body: The run itself; returns the exit code, or never returns (execve).
        descriptors: Descriptor number in the new process → descriptor of this process. All others are closed.
        environment: Variables to add to this process's environment.
        folder: Its current directory.
        limits: Limits of one process.
        wall: Isolates the process; called first, while it still has the agent's descriptors.
    """
    pid = os.fork()
    if pid:
        return pid
    status = NOT_STARTED
    try:
        os.setsid()
        wall()
        _take_descriptors(descriptors)
        _unblock_signals()
        for name, value in environment.items():
            os.environ[name] = value
        os.chdir(folder)
        apply_limits(limits)
        status = body()
    except BaseException as error:
        _report_failure(error)
    finally:
        os._exit(status)


def prepare() -> None:
    """Once, in the agent or its zygote: block all signals that can be blocked, and read the current limits."""
    # Not with `signal`, which creates an enum member for every signal in the old mask.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, QUIET)
    for name in _LIMITED:
        _ceiling(getattr(resource, name))


def apply_limits(limits: Mapping[str, Any]) -> None:
    """Set the resource limits of this process, without raising lower ones."""
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
    """Return the agent's hard limit, which never changes."""
    return resource.getrlimit(kind)[1]


def _take_descriptors(descriptors: Mapping[int, int]) -> None:
    raised = {target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _HIGH) for target, source in descriptors.items()}
    for target, source in raised.items():
        os.dup2(source, target, inheritable=True)
    close_others(sorted(descriptors), MAX_FDS)


def close_others(fds: Sequence[int], end: int) -> None:
    """Close every descriptor below `end` except `fds`, which is sorted."""
    first = 0
    for fd in (*fds, end):
        if first < fd:  # an empty range would be treated as an endless one
            os.closerange(first, fd)
        first = fd + 1


def _unblock_signals() -> None:
    """Undo `prepare`."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def execute(argv: list[str]) -> int:
    """Replace this process by a program; if that fails, return a shell's exit code for the reason."""
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


def _report_failure(error: BaseException) -> None:
    try:
        text = f"the run could not start: {error}\n" if isinstance(error, OSError) else traceback.format_exc()
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # there is nowhere else to report it, except in the exit code
