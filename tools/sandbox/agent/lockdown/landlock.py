"""Landlock: this process, and what it starts, may use these files and no others; no TCP; no signals to outside."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from agentgym.tools.sandbox.agent.lockdown import system

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_RIGHTS_BY_ABI = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 1 << 0 | 1 << 1
_SCOPES = 1 << 0 | 1 << 1

READ = _EXECUTE | _READ_FILE | _READ_DIR
USE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
"""For devices such as /dev/null."""
CHANGE = (1 << 16) - 1 & ~_MAKE_DEVICES & ~_IOCTL_DEV


def abi() -> int:
    """Return the version of Landlock that the kernel has; 0 for none."""
    return max(0, system.libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def ruleset(rules: Iterable[tuple[str, int]], version: int) -> int:
    """Return a descriptor of rules: each a path and what may be done beneath it. Missing paths are left out.

    TCP is denied from version 4 on, signals and abstract sockets to processes outside from version 6 on.
    """
    handled = _RIGHTS_BY_ABI[min(version, len(_RIGHTS_BY_ABI) - 1)]
    fd = _create(handled, version)
    for path, rights in rules:
        _allow(fd, path, rights & handled)
    return fd


def scope(version: int) -> int | None:
    """Return a descriptor of rules that only keep signals within, or `None` where the kernel cannot."""
    return _create(0, version) if version >= 6 else None


def restrict(fd: int) -> None:
    """Put this process under the rules, for good. `no_new_privs` must be set."""
    system.call("landlock_restrict_self", _RESTRICT, ctypes.c_int(fd), ctypes.c_uint32(0))


def _create(handled: int, version: int) -> int:
    values = [handled]
    if version >= 4:
        values.append(_TCP)
    if version >= 6:
        values.append(_SCOPES)
    attributes = struct.pack(f"{len(values)}Q", *values)
    fd = system.call(
        "landlock_create_ruleset",
        _CREATE,
        ctypes.c_char_p(attributes),
        ctypes.c_size_t(len(attributes)),
        ctypes.c_uint32(0),
    )
    os.set_inheritable(fd, False)
    return fd


def _allow(ruleset_fd: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, fd)
        system.call(
            f"landlock_add_rule {path}",
            _ADD_RULE,
            ctypes.c_int(ruleset_fd),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.c_char_p(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(fd)
