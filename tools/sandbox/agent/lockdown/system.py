"""System calls that Python has no function for. A failed one raises `OSError` that names the step."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()

_PRCTL_ARGUMENTS = 4


def check(result: int, step: str) -> int:
    """Return the result of a call, or raise what `errno` says, with the name of the step."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def call(step: str, number: int, *arguments: Any) -> int:
    """Do the system call of that number."""
    return check(libc.syscall(ctypes.c_long(number), *arguments), step)


def prctl(step: str, option: int, *arguments: int) -> int:
    """Change or ask something about this process."""
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:_PRCTL_ARGUMENTS]]
    return check(libc.prctl(option, *padded), step)


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Mount something; see mount(2)."""
    check(
        libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
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
