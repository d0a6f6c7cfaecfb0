"""The seccomp filter, assembled as classic BPF: blocks system calls that no program in a sandbox needs.

It denies sockets, namespaces, mounts, tracing, keys, io_uring and similar calls, and resources with per-user or
machine-wide quotas, such as signal timers and inotify, and calls that show or change which pages of shared files are
in memory; advice about these seems to succeed. For some calls, it denies only certain arguments. The
isolation does not rely on it alone (mounts or Landlock protect files), but it blocks the network in every tier.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Collection
from enum import Enum
from functools import cache

from agentgym.tools.sandbox.agent.lockdown import syscalls, system

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_AF_UNIX = 1
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_MAP_HUGETLB = 0x40000
_F_SETSIG, _F_SETLEASE, _F_NOTIFY = 10, 1024, 1026
_MADV_MERGEABLE, _MADV_COLD, _MADV_PAGEOUT = 12, 20, 21
"""Advice on memory that other processes can notice."""
_REASONS = {
    **{name: errno.ENOTSUP for name in syscalls.NUMBERS if "xattr" in name},
    **dict.fromkeys(("timer_create", "inotify_init", "inotify_init1", "io_setup"), errno.ENOSYS),
    **dict.fromkeys(("mincore", "cachestat", "preadv2"), errno.ENOSYS),
    **dict.fromkeys(("sync", "syncfs", "fadvise64", "readahead", "sync_file_range"), 0),
}
"""Errors other than `EPERM` that make programs fall back. With 0, the call seems to succeed."""

_OWN_ONLY = {
    "prlimit64": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "sched_setaffinity": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
"""Calls that change a process, with the index of its argument: only 0, the caller itself, is allowed."""
_OF_THE_USER = {"setpriority": 2, "ioprio_set": 3}
"""The first argument that applies such a call to all of the user's processes, even outside the sandbox."""
_CONDITIONAL = {"clone", "clone3", "socketpair", "personality", "ioctl", "fcntl", "mmap", "madvise", *_OWN_ONLY}
_ALWAYS = [name for name in syscalls.NUMBERS if name not in _CONDITIONAL]
_BUILDING = frozenset(
    ("mount", "umount2", "pivot_root", "open_tree", "move_mount", "mount_setattr", "unshare", "setns")
)
"""Calls that a fork of the zygote needs to build a sandbox from namespaces."""


class FilterPart(Enum):
    """The calls that a filter blocks. Filters add up, and a small one takes a tenth of the time to install."""

    ALL = frozenset(_ALWAYS)
    BEFORE = frozenset(_ALWAYS) - _BUILDING
    """All except the calls needed to build a sandbox; applied in a zygote and inherited by its forks."""
    AFTER = _BUILDING
    """The calls missing from `BEFORE`."""


@cache
def program(machine: str, part: FilterPart = FilterPart.ALL) -> bytes:
    """Return the filter for an architecture; `OSError` if its system calls are not in the table."""
    if machine not in syscalls.ARCHITECTURES:
        supported = ", ".join(sorted(syscalls.ARCHITECTURES))
        raise OSError(errno.ENOSYS, f"no seccomp filter for the architecture {machine!r}, only for {supported}")
    code = _Assembler(machine)
    code.begin(syscalls.ARCHITECTURES[machine][1])
    code.deny_all(part.value)
    if part is not FilterPart.AFTER:
        code.deny_some()
    code.emit(_RETURN, _ALLOW)
    return bytes(code.code)


def apply(part: FilterPart = FilterPart.ALL) -> None:
    """Apply the filter to this process and its future children, irrevocably. `no_new_privs` must be set."""
    _, header = prepared(part)
    system.check(
        system.libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header), 0, 0),
        "seccomp",
    )


@cache
def prepared(part: FilterPart) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]:
    """Return the filter in the kernel's format: the instructions, and the struct that points to them."""
    code = program(system.MACHINE, part)
    buffer = ctypes.create_string_buffer(code, len(code))
    return buffer, ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))


class _Assembler:
    def __init__(self, machine: str):
        self.code = bytearray()
        self._machine = machine

    def emit(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self.code += struct.pack("HBBI", operation, if_true, if_false, value)

    def begin(self, architecture: int) -> None:
        self.emit(_LOAD, _ARCHITECTURE)
        self.emit(_JUMP_EQUAL, architecture, 1, 0)
        self.emit(_RETURN, _KILL)
        self.emit(_LOAD, _NUMBER)
        self.emit(_JUMP_ABOVE, syscalls.HIGHEST_KNOWN, 0, 1)  # the x32 calls are far above
        self.emit(_RETURN, _ERRNO | errno.ENOSYS)

    def deny_all(self, names: Collection[str]) -> None:
        for name in _ALWAYS:
            if name in names:
                self.deny(name, _REASONS.get(name, errno.EPERM))

    def deny_some(self) -> None:
        """Deny calls by their arguments."""
        self.deny("clone3", errno.ENOSYS)  # its flags are behind a pointer; libc falls back to clone
        self.deny_if("clone", 0, (), _NEW_NAMESPACES)
        self.allow_only("socketpair", 0, (_AF_UNIX,))
        for name, argument in _OWN_ONLY.items():
            self.allow_only(name, argument, (0,), _OF_THE_USER.get(name))
        self.allow_only("personality", 0, (0, 0xFFFFFFFF))
        self.deny_if("ioctl", 1, (_TIOCSTI, _TIOCLINUX))
        self.deny_if("fcntl", 1, (_F_SETSIG, _F_SETLEASE, _F_NOTIFY))
        self.deny_if("mmap", 3, (), _MAP_HUGETLB)
        self.deny_if("madvise", 2, (_MADV_MERGEABLE, _MADV_COLD, _MADV_PAGEOUT))

    def deny(self, name: str, reason: int = errno.EPERM) -> None:
        number = syscalls.number(name, self._machine)
        if number is not None:
            self.emit(_JUMP_EQUAL, number, 0, 1)
            self.emit(_RETURN, _ERRNO | reason)

    def allow_only(self, name: str, argument: int, values: tuple[int, ...], but_not: int | None = None) -> None:
        """Deny a call unless the argument's low half is one of the values and the first argument is not `but_not`."""
        number = syscalls.number(name, self._machine)
        assert number is not None
        more = 0 if but_not is None else 3
        self.emit(_JUMP_EQUAL, number, 0, len(values) * 2 + 2 + more)
        if but_not is not None:
            self.emit(_LOAD, _ARGUMENTS)
            self.emit(_JUMP_EQUAL, but_not, 0, 1)
            self.emit(_RETURN, _ERRNO | errno.EPERM)
        self.emit(_LOAD, _ARGUMENTS + 8 * argument)
        for value in values:
            self.emit(_JUMP_EQUAL, value, 0, 1)
            self.emit(_RETURN, _ALLOW)
        self.emit(_RETURN, _ERRNO | errno.EPERM)

    def deny_if(self, name: str, argument: int, values: tuple[int, ...], bits: int = 0) -> None:
        """Deny a call if the argument's low half is one of the values or has one of the bits."""
        number = syscalls.number(name, self._machine)
        assert number is not None
        tests = [(_JUMP_EQUAL, value) for value in values] + ([(_JUMP_SET, bits)] if bits else [])
        self.emit(_JUMP_EQUAL, number, 0, len(tests) * 2 + 2)
        self.emit(_LOAD, _ARGUMENTS + 8 * argument)
        for operation, value in tests:
            self.emit(operation, value, 0, 1)
            self.emit(_RETURN, _ERRNO | errno.EPERM)
        self.emit(_RETURN, _ALLOW)
