"""System calls without a function in Python. A failed one raises an `OSError` that names the step."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()

if platform.system() == "Linux":  # declared once, so that calls convert their arguments without creating objects
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]
    libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.unshare.argtypes = [ctypes.c_int]
    libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
    libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


def check(result: int, step: str) -> int:
    """Return the result of a call, or raise an `OSError` from `errno` with the step's name."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def call(step: str, number: int, *arguments: Any) -> int:
    """Make a system call by number; integer arguments have 32 bits."""
    return check(libc.syscall(number, *arguments), step)


def prctl(step: str, option: int, first: int = 0, second: int = 0) -> int:
    """Call prctl(2)."""
    return check(libc.prctl(option, first, second, 0, 0), step)


def write(path: str, text: bytes) -> None:
    """Write to a kernel file in one call."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Call mount(2)."""
    check(
        libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            flags,
            options.encode() if options else None,
        ),
        f"mount {kind or 'bind'} at {target}",
    )


def detach(target: str) -> None:
    """Detach a mount and all mounts below it."""
    check(libc.umount2(os.fsencode(target), 2), f"detach {target}")


def unshare(flags: int, step: str) -> None:
    """Move this process to new namespaces."""
    check(libc.unshare(flags), step)


def set_namespace(fd: int, kind: int, step: str) -> None:
    """Enter a namespace (for PID namespaces, only future children do)."""
    check(libc.setns(fd, kind), step)
