"""The processes of the sandbox: which are there, what memory they take, and ending those that should not be there.

The agent is pid 1 of its namespace or a subreaper, so whatever loses its parent becomes the agent's child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys
import time
from collections.abc import Iterable, Set
from contextlib import suppress
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
_ROUNDS = 400
_PATIENCE_S = 3.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EXITING = 0x4
"""The kernel's `PF_EXITING`, among a process's flags."""
_OF_PROCESS = 2
"""In the number of a clock: that it counts the processor time of the process whose number is in the bits above."""


def become_subreaper() -> None:
    """Have orphans of the sandbox become children of this process."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Processes:
    """The agent's view of the other processes in its sandbox.

    Args:
        alone: Whether `kill(-1)` reaches the processes of this sandbox and no others.
    """

    def __init__(self, alone: bool):
        self._alone = alone
        self.statuses: dict[int, tuple[int, float, int]] = {}
        """Of children that were reaped by the way: wait status, seconds of processor time, peak memory in KiB."""
        self._only_leaders = False
        """Whether sessions had no other processes when they were last stopped."""

    def reap(self) -> None:
        """Collect every child that has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, status, usage)

    def _note(self, pid: int, status: int, usage: Any) -> None:
        if pid:
            self.statuses[pid] = (status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

    def wait(self, pid: int, patience_s: float = _PATIENCE_S) -> tuple[int, float, int] | None:
        """Return how a killed or ended child ended, or `None` if it would not end."""
        until = time.monotonic() + patience_s
        while pid not in self.statuses:
            with suppress(ChildProcessError):  # it is among those reaped by the way, or never was
                self._note(*os.wait4(pid, os.WNOHANG))
            if pid not in self.statuses:
                self.reap()
            if pid not in self.statuses:
                if time.monotonic() > until:
                    return None
                time.sleep(0.0005)
        return self.statuses.pop(pid)

    def end_others(self, keep: Set[int] = frozenset(), *, stop: bool = True) -> None:
        """Kill every process but the sessions `keep` (leaders) and what belongs to them; stop those, if wanted."""
        stopped = keep if stop else frozenset[int]()
        for leader in stopped:  # which starts no process any more from now on
            _signal(leader, signal.SIGSTOP)
        self._only_leaders = True
        for round_ in range(0 if not keep and _is_childless() else _ROUNDS):
            if self._alone and (not keep or round_ > _ROUNDS // 2):
                _kill(-1)
            self.reap()
            found = children(os.getpid())
            if stopped and not round_ and (len(found) > len(keep) or any(children(leader) for leader in keep)):
                self._stop_all(keep)
            strangers = [pid for pid in found if not _belongs(pid, keep)]
            if not strangers:
                break
            for pid in strangers:
                _kill(pid)
            if stopped:  # strangers can send signals; and the kernel wakes up a group when the parent of one of it goes
                self._stop_all(keep)
            if round_:
                time.sleep(0.0005)
        self.statuses = {pid: status for pid, status in self.statuses.items() if pid in keep}

    def _stop_all(self, leaders: Set[int]) -> None:
        """Stop everything in the sandbox, or, where one signal does not reach just that, all of these sessions."""
        self._only_leaders = False
        if self._alone:
            _signal(-1, signal.SIGSTOP)
            return
        stopped: set[int] = set()
        for _ in range(_ROUNDS):
            running = [pid for leader in leaders for pid in members(leader) if pid not in stopped]
            if not running:
                return
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            stopped.update(running)

    def resume(self, leader: int) -> None:
        """Let a session go on that `end_others` has stopped."""
        for pid in (leader,) if self._only_leaders else members(leader):
            _signal(pid, signal.SIGCONT)

    def end_tree(self, leader: int) -> None:
        """Kill a session: its leader, then all that descends from it or has its session id."""
        members = [leader, *descendants(leader)]
        for pid in members:
            _kill(pid)
        _kill(-leader)


def _belongs(pid: int, keep: Set[int]) -> bool:
    if pid in keep:
        return True
    try:
        return os.getsid(pid) in keep
    except OSError:
        return False


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def members(leader: int) -> list[int]:
    """Return the processes of a session: its leader, what descends from it, and its orphans."""
    orphans = [pid for pid in children(os.getpid()) if pid != leader and _belongs(pid, {leader})]
    return [pid for top in (leader, *orphans) for pid in (top, *descendants(top))]


def _is_childless() -> bool:
    """Whether this process certainly has no children. Then nothing runs: all that does descends from one of them."""
    try:
        return not _content(f"/proc/self/task/{os.getpid()}/children")
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the direct children of a process (ended ones that were not collected yet among them)."""
    try:
        found = []
        for thread in [pid] if pid == os.getpid() else os.listdir(f"/proc/{pid}/task"):
            found += [int(word) for word in _content(f"/proc/{pid}/task/{thread}/children").split()]
        return found
    except OSError:
        return [child for child, parent in _parents() if parent == pid]


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def descendants(pid: int) -> list[int]:
    """Return all processes below one."""
    found, new = [], [pid]
    while new and len(found) < 100_000:
        new = [child for parent in new for child in children(parent)]
        found += new
    return found


def quick_memory(pids: Iterable[int]) -> int:
    """Return an upper bound of the bytes of memory that these processes hold, cheaply."""
    return sum(_resident(pid) or 0 for pid in pids)


def exact_memory(pids: Iterable[int]) -> int:
    """Return the bytes of memory that these processes hold, pages that they share counted once where that is told."""
    total = 0
    for pid in pids:
        held = _proportional(pid)
        total += (_resident(pid) or 0) if held is None else held
    return total


def threads(pid: int) -> int:
    """Return the number of threads of a process."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def unlinked_bytes(pids: Iterable[int]) -> int:
    """Return the bytes on disk of files that have no name any more but are still open in these processes."""
    seen: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                state = os.stat(f"/proc/{pid}/fd/{name}")
                if state.st_nlink == 0 and stat.S_ISREG(state.st_mode):
                    seen[state.st_dev, state.st_ino] = state.st_blocks * 512
        except OSError:
            continue
    return sum(seen.values())


def is_ending(pid: int) -> bool:
    """Whether a process is on its way out, or dead and not collected; false where the kernel does not say."""
    try:
        return bool(int(_stat(pid)[6]) & _EXITING)
    except (OSError, IndexError, ValueError):
        return False


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used by now; 0 if that cannot be seen."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_PROCESS)
    except (OSError, AttributeError):
        return 0.0


def peak_kb(pid: int) -> int:
    """Return the most memory that a process has held, in KiB; 0 if that cannot be seen."""
    try:
        for line in _content(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass  # it has ended meanwhile, or cannot be seen
    return 0


def _resident(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None


def _proportional(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass  # it has ended meanwhile, or the kernel does not say
    return None


def _parents() -> list[tuple[int, int]]:
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                found.append((int(name), int(_stat(int(name))[1])))
            except (OSError, IndexError, ValueError):
                continue
    return found


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel says of a process, from its state on."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
