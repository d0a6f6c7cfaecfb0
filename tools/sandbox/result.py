"""The result of one run in a sandbox."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import StrEnum


class Ended(StrEnum):
    """Why a run ended. All values except `EXITED`, `SIGNALED` and `KILLED` name the limit that it exceeded."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    PROCESSES = "processes"
    OUTPUT = "output"
    FILE_SIZE = "file_size"
    DISK = "disk"
    FILES = "files"
    KILLED = "killed"
    """The run killed the sandbox's control process; open a new sandbox."""


_MESSAGES = {
    Ended.TIMEOUT: "it exceeded the time limit and was stopped; do less at once, or look for an infinite loop",
    Ended.CPU: "it exceeded the CPU time limit and was stopped; look for an infinite loop or a faster way",
    Ended.MEMORY: "it exceeded the memory limit and was stopped; work on smaller pieces",
    Ended.PROCESSES: "it exceeded the process limit and was stopped; start fewer processes at a time",
    Ended.OUTPUT: "it wrote far too much output and was stopped; print less, or write to a file and read parts of it",
    Ended.FILE_SIZE: "it exceeded the file size limit and was stopped; write less to one file",
    Ended.DISK: "it exceeded the disk limit and was stopped; remove files or write less",
    Ended.FILES: "it exceeded the limit on the number of files and was stopped; create fewer files",
    Ended.KILLED: "it killed the whole sandbox; its files and sessions are lost",
}


@dataclass(frozen=True)
class ResourceUsage:
    """The resources that a run used."""

    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0


@dataclass(frozen=True)
class Result:
    """One run. `stdout` and `stderr` are raw bytes, cut in the middle if too long (a note says how much is missing)."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    """`None` if a signal or a limit stopped the run."""
    ended: Ended
    duration_s: float
    signal: int | None = None
    usage: ResourceUsage = field(default_factory=ResourceUsage)
    cut: tuple[int, int] = (0, 0)
    """Bytes left out of stdout and stderr."""
    reply: bytes = b""
    """Bytes that the run wrote to its private reply descriptor."""

    @property
    def ok(self) -> bool:
        """Whether the run exited with code 0."""
        return self.ended is Ended.EXITED and self.exit_code == 0

    @property
    def message(self) -> str:
        """One line for the model about how the run ended; empty if it exited with code 0."""
        if self.ended is Ended.EXITED:
            return f"exit code {self.exit_code}" if self.exit_code else ""
        if self.ended is Ended.SIGNALED:
            return f"killed by signal {self.signal} ({_signal_name(self.signal)})"
        return _MESSAGES[self.ended]

    @property
    def out(self) -> str:
        """Stdout as text; invalid UTF-8 becomes replacement characters."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Stderr as text."""
        return self.stderr.decode("utf-8", "replace")


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return "unknown"
