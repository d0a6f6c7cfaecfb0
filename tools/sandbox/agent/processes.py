"""Lists the sandbox's processes, measures their memory, and kills those that should not exist.

The agent is pid 1 of its namespace or a subreaper, so orphans become its children.
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
_STOPPING_S = 0.5
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EXITING = 0x4
"""The kernel's `PF_EXITING`, among a process's flags."""
_OF_PROCESS = 2
"""The low bits of a clock id that select the CPU time of the process in the high bits."""


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
        """Children reaped in passing: wait status, CPU seconds, peak memory in KiB."""
        self._only_leaders = False
        """Whether sessions had no other processes when they were last stopped."""

    def reap(self) -> None:
        """Reap every child that has exited."""
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
        """Return how a killed or exiting child ended, or `None` if it did not exit in time."""
        until = time.monotonic() + patience_s
        while pid not in self.statuses:
            with suppress(ChildProcessError):  # it was reaped in passing, or never existed
                self._note(*os.wait4(pid, os.WNOHANG))
            if pid not in self.statuses:
                self.reap()
            if pid not in self.statuses:
                if time.monotonic() > until:
                    return None
                time.sleep(0.0005)
        return self.statuses.pop(pid)

    def kill_others(self, keep: Set[int] = frozenset(), *, stop: bool = True) -> None:
        """Kill every process except the sessions with the leaders `keep`; stop those sessions if `stop` is set."""
        stopped = keep if stop else frozenset[int]()
        for leader in stopped:
            _signal(leader, signal.SIGSTOP)
        _until_stopped(stopped)  # from now on they start no more processes
        self._only_leaders = True
        for round_ in range(0 if not keep and _is_childless() else _ROUNDS):
            if self._alone and (not keep or round_ > _ROUNDS // 2):
                _kill(-1)
            self.reap()
            pids = children(os.getpid())
            if stopped and not round_ and (len(pids) > len(keep) or any(children(leader) for leader in keep)):
                self._stop_all(keep)
            strangers = [pid for pid in pids if not _belongs(pid, keep)]
            if not strangers:
                break
            for pid in strangers:
                _kill(pid)
            if stopped:  # other processes can send signals, and the kernel wakes up orphaned process groups
                self._stop_all(keep)
            if round_:
                time.sleep(0.0005)
        self.statuses = {pid: status for pid, status in self.statuses.items() if pid in keep}

    def _stop_all(self, leaders: Set[int]) -> None:
        """Stop everything in the sandbox with one signal, or, where that would reach others, each of these sessions."""
        self._only_leaders = False
        if self._alone:
            _signal(-1, signal.SIGSTOP)
            _until_stopped([pid for leader in leaders for pid in members(leader)])
            return
        stopped: set[int] = set()
        for _ in range(_ROUNDS):
            running = [pid for leader in leaders for pid in members(leader) if pid not in stopped]
            if not running:
                return
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            _until_stopped(running)
            stopped.update(running)

    def resume(self, leader: int) -> None:
        """Resume a session that `kill_others` has stopped."""
        for pid in (leader,) if self._only_leaders else members(leader):
            _signal(pid, signal.SIGCONT)

    def kill_session(self, leader: int) -> None:
        """Kill a session: its leader, then all descendants and processes with its session id."""
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


def _until_stopped(pids: Iterable[int]) -> None:
    """Wait until processes that were sent SIGSTOP have stopped.

    The thread that takes the signal may have to wait for a processor; its process's other threads run until then.
    """
    until = time.monotonic() + _STOPPING_S
    for pid in pids:
        while _runs(pid) and time.monotonic() < until:
            time.sleep(0.0002)


def _runs(pid: int) -> bool:
    """Whether a thread of a process is neither stopped nor dead."""
    try:
        states = [_content(f"/proc/{pid}/task/{thread}/stat") for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:  # it is gone
        return False
    return any(state.rpartition(b") ")[2][:1] not in b"TtZX" for state in states)


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def members(leader: int) -> list[int]:
    """Return the processes of a session: its leader, the leader's descendants, and orphans."""
    orphans = [pid for pid in children(os.getpid()) if pid != leader and _belongs(pid, {leader})]
    return [pid for top in (leader, *orphans) for pid in (top, *descendants(top))]


def _is_childless() -> bool:
    """Whether this process certainly has no children. Then nothing runs, as every process is a descendant."""
    try:
        return not _content(f"/proc/self/task/{os.getpid()}/children")
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the direct children of a process, including zombies."""
    try:
        pids = []
        for thread in [pid] if pid == os.getpid() else os.listdir(f"/proc/{pid}/task"):
            pids += [int(word) for word in _content(f"/proc/{pid}/task/{thread}/children").split()]
        return pids
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
    """Return all descendants of a process."""
    pids, new = [], [pid]
    while new and len(pids) < 100_000:
        new = [child for parent in new for child in children(parent)]
        pids += new
    return pids


def quick_memory(pids: Iterable[int]) -> int:
    """Return a cheap upper bound on the memory of these processes, in bytes."""
    return sum(_resident(pid) or 0 for pid in pids)


def exact_memory(pids: Iterable[int]) -> int:
    """Return the memory of these processes in bytes, counting shared pages once where the kernel reports them."""
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
    """Return the disk usage in bytes of deleted files that these processes still have open."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                state = os.stat(f"/proc/{pid}/fd/{name}")
                if state.st_nlink == 0 and stat.S_ISREG(state.st_mode):
                    sizes[state.st_dev, state.st_ino] = state.st_blocks * 512
        except OSError:
            continue
    return sum(sizes.values())


def is_ending(pid: int) -> bool:
    """Whether a process is exiting or a zombie; false where the kernel does not report it."""
    try:
        return bool(int(_stat(pid)[6]) & _EXITING)
    except (OSError, IndexError, ValueError):
        return False


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used; 0 if unavailable."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_PROCESS)
    except (OSError, AttributeError):
        return 0.0


def peak_kb(pid: int) -> int:
    """Return a process's peak memory in KiB; 0 if unavailable."""
    try:
        for line in _content(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass  # it has exited meanwhile, or cannot be inspected
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
        pass  # it has exited meanwhile, or the kernel does not report it
    return None


def _parents() -> list[tuple[int, int]]:
    pairs = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                pairs.append((int(name), int(_stat(int(name))[1])))
            except (OSError, IndexError, ValueError):
                continue
    return pairs


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process's `stat` file, starting with its state."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
