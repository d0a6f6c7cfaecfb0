"""What came of one run in a sandbox."""

from __future__ import annotations

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
    def out(self) -> str:
        """Stdout as text; bytes that are no UTF-8 are shown as replacement characters."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Stderr as text."""
        return self.stderr.decode("utf-8", "replace")
