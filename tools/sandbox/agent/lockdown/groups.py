"""Cgroups of either version, where root may create them: a hard limit on the total memory of a sandbox."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from agentgym.tools.sandbox.agent.lockdown import system

_PREFIX = "agentgym-"
_V1 = "sys/fs/cgroup/memory"
_V2 = "sys/fs/cgroup"
_LIMIT = ("memory.limit_in_bytes", "memory.max")
_SWAP = ("memory.swappiness", "memory.swap.max")
_USAGE = ("memory.usage_in_bytes", "memory.current")
_KILLS = ("memory.oom_control", "memory.events")
_MB = 1 << 20
_TRIES = 20
_MAX_FREE = 64
_RESIDUE = 4 * _MB
"""Maximum bytes still charged to a cgroup that is reused."""


class ControlGroups:
    """The cgroups of one zygote's sandboxes, in a common parent cgroup.

    Args:
        host: The path of the host's root, with a trailing slash.
        driver: The driver's process id, which is part of the cgroup's name, so that later zygotes recognise leftovers.
    """

    def __init__(self, host: str, driver: int):
        self._version = 1 if os.path.exists(f"{host}{_V1}/memory.limit_in_bytes") else 2
        self.top = f"{host}{_V1 if self._version == 1 else _V2}"
        self._folder = f"{self.top}/{_PREFIX}{driver}-{os.urandom(4).hex()}"
        self._count = 0
        self._free: dict[int, list[ControlGroup]] = {}

    def prepare(self, host_processes: str) -> None:
        """Create the parent cgroup, and remove those of dead drivers; raises `OSError` if that is not permitted."""
        if self._version == 2:
            with open(f"{self.top}/cgroup.subtree_control") as file:
                if "memory" not in file.read().split():
                    raise OSError("the memory controller is not available")
        for name in os.listdir(self.top):
            driver = name[len(_PREFIX) :].partition("-")[0]
            if name.startswith(_PREFIX) and driver.isdigit() and not os.path.exists(f"{host_processes}/{driver}"):
                _remove(f"{self.top}/{name}")
        os.mkdir(self._folder)
        if self._version == 2:
            system.write(f"{self._folder}/cgroup.subtree_control", b"+memory")

    def take(self, megabytes: int) -> ControlGroup:
        """Return an empty cgroup for a sandbox, reused or new."""
        free = self._free.get(megabytes)
        if free:
            return free.pop()
        self._count += 1
        return self._make(f"{self._folder}/{self._count}", megabytes)

    def give_back(self, group: ControlGroup) -> None:
        """Return a sandbox's cgroup after its processes have exited."""
        free = self._free.setdefault(group.megabytes, [])
        if len(free) < _MAX_FREE and group.empty():
            free.append(group)
        else:
            group.close()
            _remove(group.folder)

    def _make(self, folder: str, megabytes: int) -> ControlGroup:
        os.mkdir(folder)
        column = self._version - 1
        system.write(f"{folder}/{_LIMIT[column]}", b"%d" % (megabytes * _MB))
        with suppress(OSError):
            system.write(f"{folder}/{_SWAP[column]}", b"0")
        processes = os.open(f"{folder}/cgroup.procs", os.O_RDWR | os.O_CLOEXEC)
        usage, kills = (
            os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in (_USAGE[column], _KILLS[column])
        )
        return ControlGroup(folder, megabytes, processes, usage, kills)

    def close(self) -> None:
        """Remove the cgroups."""
        _remove(self._folder)


class ControlGroup:
    """A cgroup for one sandbox at a time, with its open control files."""

    def __init__(self, folder: str, megabytes: int, processes: int, usage: int, kills: int):
        self.folder = folder
        self.megabytes = megabytes
        self.kills = kills
        self._processes = processes
        self._usage = usage

    def enter(self) -> None:
        """Move this process into it."""
        os.write(self._processes, b"0")

    def empty(self) -> bool:
        """Whether it can be reused: it has no processes, and little memory is charged to it."""
        return not os.pread(self._processes, 1, 0) and int(os.pread(self._usage, 64, 0)) < _RESIDUE

    def close(self) -> None:
        """Close the files."""
        for fd in (self._processes, self._usage, self.kills):
            os.close(fd)


class GroupOomKills:
    """Detects whether the kernel killed a process for a cgroup's memory since the last `watch`."""

    def __init__(self, fd: int):
        self._fd = fd
        self._before = b""

    def watch(self) -> None:
        """Reset the count."""
        self._before = os.pread(self._fd, 4096, 0)

    def happened(self) -> bool:
        """Return whether it has happened since `watch`."""
        return _count(os.pread(self._fd, 4096, 0)) > _count(self._before)


def _count(text: bytes) -> int:
    return int(dict(line.split() for line in text.splitlines()).get(b"oom_kill", 0))


def open_groups(host: str, driver: int) -> ControlGroups | None:
    """Return a zygote's cgroups, or `None` where none can be created, as for users other than root."""
    if os.geteuid():
        return None
    try:
        groups = ControlGroups(host, driver)
        groups.prepare(f"{host}proc")
    except OSError:
        return None
    return groups


def _remove(folder: str) -> None:
    for attempt in range(_TRIES):
        try:
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError:
            if attempt == 0:
                _remove_within(folder)
            time.sleep(0.001)  # the kernel may need a moment to forget the last process


def _remove_within(folder: str) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
