"""What a sandbox protects from, and how well: the rows of every backend's table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Threat(StrEnum):
    """What model-written code may try, or do by mistake."""

    FILES = "files"
    """Reading or changing files of the host."""
    NETWORK = "network"
    """Reaching anything over a socket."""
    PROCESSES = "processes"
    """Seeing, signalling or tracing processes that are not its own."""
    ENVIRONMENT = "environment"
    """Reading the host's environment variables or the driver's memory."""
    PRIVILEGE = "privilege"
    """Becoming root, or using what only root may."""
    KERNEL = "kernel"
    """Reaching rarely used, risky system calls."""
    MEMORY = "memory"
    """One process that takes much memory."""
    TOTAL_MEMORY = "total_memory"
    """Many processes that take much memory together."""
    CPU = "cpu"
    """Never ending."""
    FORKS = "forks"
    """Processes without number."""
    DISK = "disk"
    """Filling the disk."""
    INODES = "inodes"
    """Files without number."""
    DAEMONS = "daemons"
    """Processes that outlive the run."""
    NEIGHBOURS = "neighbours"
    """Reaching another sandbox."""
    FORGED_RESULTS = "forged_results"
    """Faking the outcome of a run or a cell."""
    IDLE_CPU = "idle_cpu"
    """Using the processor in a session between its cells."""
    KERNEL_QUOTAS = "kernel_quotas"
    """Using up what the kernel counts for a user or for the whole machine, such as queued signals and timers."""
    FILE_LOCKS = "file_locks"
    """Locking or watching files that the host or other sandboxes use too."""
    SIDE_CHANNELS = "side_channels"
    """Signalling to a neighbour through what everybody can see, such as the load of the machine."""


class Held(StrEnum):
    """How well a threat is held."""

    HELD = "held"
    PARTLY = "partly"
    OPEN = "not held"


@dataclass(frozen=True)
class Protection:
    """One row of a table: how well a threat is held, and by what (or why not)."""

    held: Held
    how: str


FORGED_RESULTS_HELD = (
    "exit codes come from the kernel and output from the agent's own pipes; a session ends a cell with a secret that "
    "came with that cell, and its exit code is what the process of the session says of itself"
)
IDLE_CPU_HELD = (
    "the processes of sessions are stopped after each run; one that wakes up is stopped again, or all are ended"
)
SIDE_CHANNELS_OPEN = "the load of the machine, its free memory and its caches are seen by all that run on it"


def held(how: str) -> Protection:
    """Return a row for a threat that is held."""
    return Protection(Held.HELD, how)


def partly(how: str) -> Protection:
    """Return a row for a threat that is held with exceptions."""
    return Protection(Held.PARTLY, how)


def not_held(how: str) -> Protection:
    """Return a row for a threat that is not held."""
    return Protection(Held.OPEN, how)
