"""Checks the limits that the kernel does not enforce on this host, periodically while something runs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.tools.sandbox.agent import processes
from agentgym.tools.sandbox.agent.beneath import FileError, enter, enter_open, leave

PERIOD_S = 0.1
_SHARE = 20
"""Checks may use at most 1/N of a core. Counted in CPU time, so that a busy machine, where a
check waits for its core, does not make checks rare."""
_MB = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UsageMonitor:
    """Monitors a sandbox's memory, number of processes, disk usage and number of files.

    Args:
        totals: The sandbox's limits.
        members: Returns the sandbox's process ids, without the agent's.
        folders: Folders to measure; empty if a quota applies. They are kept open from now on, because runs
            can lock, move or replace them.
        count_processes: Whether to count processes and threads.
    """

    def __init__(
        self,
        totals: Mapping[str, Any],
        members: Callable[[], Sequence[int]],
        folders: Sequence[str] = (),
        count_processes: bool = False,
    ):
        self._totals = totals
        self._members = members
        self._folders = tuple(os.open(folder, _FOLDER) for folder in folders)
        self._count = count_processes
        self._next = time.monotonic() + PERIOD_S

    def pause(self) -> float:
        """Return the seconds until the next check."""
        return max(0.0, self._next - time.monotonic())

    def breach(self) -> str:
        """Return the name of an exceeded limit, or `""`; does nothing until the next check is due."""
        if time.monotonic() < self._next:
            return ""
        used = time.thread_time()
        members = self._members()
        exceeded = self._memory(members) or self._disk(members)
        self._next = time.monotonic() + max(PERIOD_S, _SHARE * (time.thread_time() - used))
        return exceeded

    def make_room(self, size: int, files: int) -> None:
        """Reject a write of the driver that does not fit, where no quota does."""
        if self._folders and self._disk((), size, files):
            raise FileError("no_space", f"{size} bytes in {files} files exceed the remaining disk quota")

    def _memory(self, members: Sequence[int]) -> str:
        if self._count and sum(map(processes.threads, members)) > self._totals["processes"]:
            return "processes"
        limit = self._totals["total_memory_mb"] * _MB
        if processes.quick_memory(members) > limit and processes.exact_memory(members) > limit:
            return "memory"
        return ""

    def _disk(self, members: Sequence[int], size: int = 0, files: int = 0) -> str:
        if not self._folders:
            return ""
        most_size, most_files = self._totals["disk_mb"] * _MB, self._totals["files"]
        size += processes.unlinked_bytes(members)
        for folder in self._folders:
            more_size, more_files = usage(folder, most_files)
            size, files = size + more_size, files + more_files
        if size > most_size:
            return "disk"
        return "files" if files > most_files else ""


def usage(folder: int, most: int) -> tuple[int, int]:
    """Return the disk usage in bytes and the number of files and folders below an open folder, up to `most` files.

    Uses descriptors, because paths may be too long, and enters folders without permissions, because their owner can
    restore them. A folder that cannot be entered at all counts as more files than allowed.
    """
    size = number = 0
    stack = [_listed(*enter_open(folder))]
    try:
        while stack and number <= most:
            fd, names, mode = stack[-1]
            if not names:
                stack.pop()
                leave(fd, mode)
                continue
            name = names.pop()
            try:
                state = os.lstat(name, dir_fd=fd)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError:
                return size, most + 1
            number += 1
            size += state.st_blocks * 512
            if stat.S_ISDIR(state.st_mode):
                try:
                    stack.append(_listed(*enter(fd, name, state.st_mode)))
                except FileNotFoundError:
                    continue
                except OSError:
                    return size, most + 1
        return size, number
    finally:
        for fd, _, mode in stack:
            leave(fd, mode)


def _listed(fd: int, mode: int | None) -> tuple[int, list[str], int | None]:
    try:
        return fd, os.listdir(fd), mode
    except OSError:
        leave(fd, mode)
        raise
