"""Landlock: restricts this process and its children to certain files, without TCP and signals to the outside."""

from __future__ import annotations

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
_RULE = struct.Struct("=Qi")
_TCP = 1 << 0 | 1 << 1
_SCOPES = 1 << 0 | 1 << 1

READ = _EXECUTE | _READ_FILE | _READ_DIR
USE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
"""For devices such as /dev/null."""
CHANGE = (1 << 16) - 1 & ~_MAKE_DEVICES & ~_IOCTL_DEV


def abi() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    return max(0, system.libc.syscall(_CREATE, None, 0, _VERSION))


def ruleset(rules: Iterable[tuple[str, int]], version: int, opened: Iterable[bytes] = ()) -> int:
    """Return a descriptor of a ruleset of paths with the rights beneath them. Missing paths are left out.

    TCP is denied from version 4 on; signals and abstract sockets to outside processes are denied from version 6 on.

    Args:
        rules: Paths and rights.
        version: The result of `abi`.
        opened: Further rules with open paths, from `open_rules`.
    """
    fd = _create(_handled(version), version)
    for rule in opened:
        _add(fd, rule)
    for rule in open_rules(rules, version):
        _add(fd, rule)
        os.close(_descriptor(rule))
    return fd


def open_rules(rules: Iterable[tuple[str, int]], version: int) -> list[bytes]:
    """Return rules in the kernel's format, each with an open descriptor of its path."""
    handled = _handled(version)
    opened = []
    for path, rights in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        opened.append(_RULE.pack(rights & handled, fd))
    return opened


def scope(version: int) -> int | None:
    """Return a descriptor of a ruleset that only restricts signals, or `None` if the kernel does not support it."""
    return _create(0, version) if version >= 6 else None


def restrict(fd: int) -> None:
    """Apply the rules to this process, irrevocably. `no_new_privs` must be set."""
    system.call("landlock_restrict_self", _RESTRICT, fd, 0)


def _create(handled: int, version: int) -> int:
    values = [handled]
    if version >= 4:
        values.append(_TCP)
    if version >= 6:
        values.append(_SCOPES)
    attributes = struct.pack(f"{len(values)}Q", *values)
    return system.call("landlock_create_ruleset", _CREATE, attributes, len(attributes), 0)


def _handled(version: int) -> int:
    return _RIGHTS_BY_ABI[min(version, len(_RIGHTS_BY_ABI) - 1)]


def _descriptor(rule: bytes) -> int:
    return _RULE.unpack(rule)[1]


def _add(ruleset_fd: int, rule: bytes) -> None:
    system.call("landlock_add_rule", _ADD_RULE, ruleset_fd, _PATH_BENEATH, rule, 0)
