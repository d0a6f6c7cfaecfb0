"""Threats to a sandbox and how well each backend holds them: the rows of its table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Threat(StrEnum):
    """Something harmful that model-written code may do, on purpose or by mistake."""

    FILES = "files"
    """Reading or changing the host's files."""
    NETWORK = "network"
    """Connecting to anything over a socket."""
    PROCESSES = "processes"
    """Seeing, signalling or tracing processes outside the sandbox."""
    ENVIRONMENT = "environment"
    """Reading the host's environment variables or the driver's memory."""
    PRIVILEGE = "privilege"
    """Becoming root, or using root's privileges."""
    KERNEL = "kernel"
    """Making rarely used, risky system calls."""
    MEMORY = "memory"
    """Exhausting memory with one process."""
    TOTAL_MEMORY = "total_memory"
    """Exhausting memory with many processes."""
    CPU = "cpu"
    """Running forever."""
    FORKS = "forks"
    """Creating unlimited processes."""
    DISK = "disk"
    """Filling the disk."""
    INODES = "inodes"
    """Creating unlimited files."""
    DAEMONS = "daemons"
    """Processes that outlive the run."""
    NEIGHBOURS = "neighbours"
    """Reaching another sandbox."""
    FORGED_RESULTS = "forged_results"
    """Faking the outcome of a run or a cell."""
    IDLE_CPU = "idle_cpu"
    """Using CPU in a session between its cells."""
    KERNEL_QUOTAS = "kernel_quotas"
    """Exhausting per-user or machine-wide kernel quotas, such as queued signals and timers."""
    FILE_LOCKS = "file_locks"
    """Locking or watching files shared with the host or other sandboxes."""
    SIDE_CHANNELS = "side_channels"
    """Communicating with another sandbox through shared state, such as the machine's load."""


class ProtectionLevel(StrEnum):
    """How well a threat is held."""

    HELD = "held"
    PARTLY = "partly"
    OPEN = "not held"


@dataclass(frozen=True)
class Protection:
    """One row of a table: how well a threat is held, and how (or why not)."""

    held: ProtectionLevel
    how: str


FORGED_RESULTS_HELD = (
    "exit codes come from the kernel and output from the agent's pipes; a session reports the end of a cell with a "
    "secret sent with that cell, and the exit code of a cell is reported by the session's process itself"
)
IDLE_CPU_HELD = "session processes are stopped after each run; any that wake up are stopped again, or all are killed"
SIDE_CHANNELS_OPEN = "the machine's load, free memory and caches are visible to everything that runs on it"


def held(how: str) -> Protection:
    """Return a row for a threat that is held."""
    return Protection(ProtectionLevel.HELD, how)


def partly(how: str) -> Protection:
    """Return a row for a threat that is held with exceptions."""
    return Protection(ProtectionLevel.PARTLY, how)


def not_held(how: str) -> Protection:
    """Return a row for a threat that is not held."""
    return Protection(ProtectionLevel.OPEN, how)
