"""Drops privileges: changes the user, drops capabilities for good, exits with the parent, forbids tracing."""

from __future__ import annotations

import os
import signal
import struct

from agentgym.tools.sandbox.agent.lockdown import system

_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_SECUREBITS, _SET_NO_NEW_PRIVS = 1, 4, 24, 28, 38
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 47, 4
_NO_ROOT_LOCKED = 0xEF  # root is not special and changing uids grants no capabilities; all locked
_CAPABILITY_VERSION = 0x20080522
_MAX_CAPABILITIES = 64
_CAPABILITIES_HEADER, _NO_CAPABILITIES = struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)
_NEWUSER = 0x10000000


def become(uid: int) -> None:
    """Become an ordinary user, irrevocably."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid):
        raise OSError(f"still user {os.getresuid()} after becoming {uid}")


def own_user_namespace(uid: int, gid: int, inside: int) -> None:
    """Enter a user namespace with this user, whose uid there is `inside`, as the only one."""
    system.prctl("dumpable", _SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root after the change of user
    system.unshare(_NEWUSER, "unshare user")
    system.write("/proc/self/setgroups", b"deny")
    system.write("/proc/self/uid_map", b"%d %d 1" % (inside, uid))
    system.write("/proc/self/gid_map", b"%d %d 1" % (inside, gid))


def drop_capabilities() -> None:
    """Drop every capability, and forbid processes of the same user to trace this one."""
    system.libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    system.libc.prctl(_SET_SECUREBITS, _NO_ROOT_LOCKED, 0, 0, 0)
    system.check(system.libc.capset(_CAPABILITIES_HEADER, _NO_CAPABILITIES), "drop capabilities")
    no_new_privileges()
    system.prctl("not dumpable", _SET_DUMPABLE, 0)


def lock_capabilities() -> None:
    """Prevent started programs from gaining capabilities, whatever their file or user."""
    prctl = system.libc.prctl
    for capability in range(_MAX_CAPABILITIES):
        if prctl(_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # the kernel knows no further ones, or we have none to drop


def no_new_privileges() -> None:
    """Set `no_new_privs`: starting a program never grants privileges."""
    system.prctl("no_new_privs", _SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent exits. Changing the user resets this, so call it afterwards."""
    system.prctl("die with parent", _SET_PDEATHSIG, signal.SIGKILL)


def traceable() -> None:
    """Let this process read its own /proc again: unlike the agent, a run has nothing to hide."""
    system.prctl("dumpable", _SET_DUMPABLE, 1)
