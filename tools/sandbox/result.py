"""What came of one run in a sandbox."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import StrEnum


class Ended(StrEnum):
    """Why a run ended. All but `EXITED` and `SIGNALED` name the limit that ended it."""

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
    """The sandbox itself was ended by the run (its control process died); it must be opened again."""


_MESSAGES = {
    Ended.TIMEOUT: "it took longer than the time limit and was stopped; do less at once, or look for an endless loop",
    Ended.CPU: "it used up its processor time and was stopped; look for an endless loop or a faster way",
    Ended.MEMORY: "it used more memory than allowed and was stopped; work on smaller pieces",
    Ended.PROCESSES: "it started more processes than allowed and was stopped; start fewer at a time",
    Ended.OUTPUT: "it wrote far too much output and was stopped; print less, or write to a file and look at parts",
    Ended.FILE_SIZE: "a file became larger than allowed and it was stopped; write less into one file",
    Ended.DISK: "it used up the disk space and was stopped; remove files or write less",
    Ended.FILES: "it made more files than allowed and was stopped; make fewer files",
    Ended.KILLED: "it ended the whole sandbox; files and sessions in it are lost",
}


@dataclass(frozen=True)
class Usage:
    """What a run used."""

    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0


@dataclass(frozen=True)
class Result:
    """One run. `stdout` and `stderr` are bytes as written, cut in the middle if too long (a note says by how much)."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    """`None` if a signal or a limit ended the run."""
    ended: Ended
    duration_s: float
    signal: int | None = None
    usage: Usage = field(default_factory=Usage)
    cut: tuple[int, int] = (0, 0)
    """Bytes left out of stdout and stderr."""
    reply: bytes = b""
    """What the run wrote to its private reply descriptor."""

    @property
    def ok(self) -> bool:
        """Whether the run came to its own end with exit code 0."""
        return self.ended is Ended.EXITED and self.exit_code == 0

    @property
    def message(self) -> str:
        """One line for the model about how the run ended; empty if it exited with code 0."""
        if self.ended is Ended.EXITED:
            return f"exit code {self.exit_code}" if self.exit_code else ""
        if self.ended is Ended.SIGNALED:
            return f"ended by signal {self.signal} ({_signal_name(self.signal)})"
        return _MESSAGES[self.ended]

    @property
    def out(self) -> str:
        """Stdout as text; bytes that are no UTF-8 are shown as replacement characters."""
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
