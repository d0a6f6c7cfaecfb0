"""System calls that Python has no function for. A failed one raises `OSError` that names the step."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()

if platform.system() == "Linux":  # each call converts its arguments as told here, and makes no objects for them
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]
    libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.unshare.argtypes = [ctypes.c_int]
    libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
    libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


def check(result: int, step: str) -> int:
    """Return the result of a call, or raise what `errno` says, with the name of the step."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def call(step: str, number: int, *arguments: Any) -> int:
    """Do the system call of that number; whole numbers among its arguments have 32 bits."""
    return check(libc.syscall(number, *arguments), step)


def prctl(step: str, option: int, first: int = 0, second: int = 0) -> int:
    """Change or ask something about this process."""
    return check(libc.prctl(option, first, second, 0, 0), step)


def write(path: str, text: bytes) -> None:
    """Write to a file of the kernel's, in one go."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Mount something; see mount(2)."""
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
    """Take a mount and all below it out of the tree."""
    check(libc.umount2(os.fsencode(target), 2), f"detach {target}")


def unshare(flags: int, step: str) -> None:
    """Leave namespaces that are shared with the parent."""
    check(libc.unshare(flags), step)


def set_namespace(fd: int, kind: int, step: str) -> None:
    """Enter a namespace (children only, for process ids)."""
    check(libc.setns(fd, kind), step)
