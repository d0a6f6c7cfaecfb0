"""Giving up rights: another user, no capabilities, no way to gain any, death with the parent, no tracing."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from agentgym.tools.sandbox.agent.lockdown import system

_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_SECUREBITS, _SET_NO_NEW_PRIVS = 1, 4, 24, 28, 38
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 47, 4
_NO_ROOT_LOCKED = 0xEF  # root is nobody special, ids change no capabilities, and that for good
_CAPABILITY_VERSION = 0x20080522
_MAX_CAPABILITIES = 64
_NEWUSER = 0x10000000


def become(uid: int) -> None:
    """Become an ordinary user, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid):
        raise OSError(f"still user {os.getresuid()} after becoming {uid}")


def own_user_namespace(uid: int, gid: int, inside: int) -> None:
    """Enter a user namespace in which this user, called `inside` there, is the only one."""
    system.prctl("dumpable", _SET_DUMPABLE, 1)  # else /proc/self belongs to root since the user was changed
    system.unshare(_NEWUSER, "unshare user")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inside} {uid} 1"), ("gid_map", f"{inside} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def renounce() -> None:
    """Drop every capability and every way to gain one; let nobody of the same user trace this process."""
    for capability in range(_MAX_CAPABILITIES):
        if system.libc.prctl(_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # the kernel knows no more, or there was no right to drop any, and hence none
    system.libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    system.libc.prctl(_SET_SECUREBITS, ctypes.c_ulong(_NO_ROOT_LOCKED), 0, 0, 0)
    header = ctypes.c_char_p(struct.pack("Ii", _CAPABILITY_VERSION, 0))
    system.check(system.libc.capset(header, ctypes.c_char_p(bytes(24))), "drop capabilities")
    system.prctl("no_new_privs", _SET_NO_NEW_PRIVS, 1)
    system.prctl("not dumpable", _SET_DUMPABLE, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Changing the user clears this: call it after that."""
    system.prctl("die with parent", _SET_PDEATHSIG, signal.SIGKILL)


def traceable() -> None:
    """Let this process read its own /proc again: a run's process, unlike the agent, has nothing to hide."""
    system.prctl("dumpable", _SET_DUMPABLE, 1)
