"""Control groups, where root may make them: a hard bound on the memory of a sandbox as a whole, of either version."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_PREFIX = "agentgym-"
_V1 = "sys/fs/cgroup/memory"
_V2 = "sys/fs/cgroup"
_LIMIT = ("memory.limit_in_bytes", "memory.max")
_SWAP = ("memory.swappiness", "memory.swap.max")
_KILLS = ("memory.oom_control", "memory.events")
_MB = 1 << 20
_TRIES = 20


class Groups:
    """The groups of one zygote's sandboxes, in a group of their own.

    Args:
        host: Where the root of the host is, with a slash at its end.
        driver: Process id of the driver, in the name by which a later zygote can tell that a group was left behind.
    """

    def __init__(self, host: str, driver: int):
        self._version = 1 if os.path.exists(f"{host}{_V1}/memory.limit_in_bytes") else 2
        self.top = f"{host}{_V1 if self._version == 1 else _V2}"
        self._folder = f"{self.top}/{_PREFIX}{driver}-{os.urandom(4).hex()}"

    def prepare(self, host_processes: str) -> None:
        """Make the group of all groups, and remove those of drivers that were killed; `OSError` if that is refused."""
        if self._version == 2:
            with open(f"{self.top}/cgroup.subtree_control") as file:
                if "memory" not in file.read().split():
                    raise OSError("memory is not controlled by groups here")
        for name in os.listdir(self.top):
            driver = name[len(_PREFIX) :].partition("-")[0]
            if name.startswith(_PREFIX) and driver.isdigit() and not os.path.exists(f"{host_processes}/{driver}"):
                _remove(f"{self.top}/{name}")
        os.mkdir(self._folder)
        if self._version == 2:
            _write(f"{self._folder}/cgroup.subtree_control", "+memory")

    def enter(self, name: str, megabytes: int) -> int:
        """Make a group for a sandbox and put this process into it; return a descriptor that tells of kills."""
        folder = f"{self._folder}/{name}"
        os.mkdir(folder)
        column = self._version - 1
        _write(f"{folder}/{_LIMIT[column]}", str(megabytes * _MB))
        with suppress(OSError):
            _write(f"{folder}/{_SWAP[column]}", "0")
        _write(f"{folder}/cgroup.procs", "0")
        return os.open(f"{folder}/{_KILLS[column]}", os.O_RDONLY | os.O_CLOEXEC)

    def leave(self, name: str) -> None:
        """Remove the group of a sandbox whose processes have ended."""
        _remove(f"{self._folder}/{name}")

    def close(self) -> None:
        """Remove the group of all groups."""
        _remove(self._folder)


class Kills:
    """Says whether the kernel has killed something for the memory of a group since it was last asked."""

    def __init__(self, fd: int):
        self._fd = fd
        self._seen = self._count()

    def __call__(self) -> bool:
        """Return whether it has."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        try:
            lines = os.pread(self._fd, 4096, 0).decode("ascii").splitlines()
            return int(dict(line.split() for line in lines).get("oom_kill", 0))
        except (OSError, ValueError):
            return 0


def open_groups(host: str, driver: int) -> Groups | None:
    """Return a zygote's groups, or `None` where none can be made, which is so for all but root."""
    if os.geteuid():
        return None
    try:
        groups = Groups(host, driver)
        groups.prepare(f"{host}proc")
    except OSError:
        return None
    return groups


def enter(groups: Groups | None, request: dict[str, Any]) -> Callable[[], bool]:
    """Put this process into a group of its own, if there are groups; return what tells of kills for memory."""
    if groups is None:
        return lambda: False
    limits = request["limits"]
    return Kills(groups.enter(str(request["id"]), limits["total_memory_mb"] + limits["disk_mb"]))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)


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
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
