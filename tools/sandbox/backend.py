"""The backend interface: start isolated agents, kill them from outside, and declare the protections they offer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier


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


START_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 15.0
"""Long enough that a busy machine does not look like one without this backend."""


class SandboxLost(InfrastructureError):
    """The sandbox is gone (it was killed, or the machinery around it broke); open another one."""


class SandboxStartFailed(InfrastructureError):
    """A sandbox could not be created; the message names the step that failed."""


@dataclass
class Launched:
    """A running agent, as returned by a backend."""

    endpoint: socket.socket
    """The driver's end of the connection; it speaks the frames of `agent/wire.py`. The agent sends its hello first."""
    kill: Callable[[], None]
    """Kills everything in the sandbox from outside and cleans up. Safe to call twice."""
    workdir: str
    """Where the workspace is, as the sandboxed code sees it."""
    settings: Mapping[str, Any] | None = None
    """Sent as the first frame to an agent that waits for its settings; `None` if it has them already."""
    notes: str = ""


@dataclass(frozen=True)
class ProbeResult:
    """The result of trying a backend on this machine."""

    tier: SandboxTier
    works: bool
    why: str
    """The observation, or the step that failed."""
    protections: Mapping[Threat, Protection] = field(default_factory=dict)

    @property
    def gaps(self) -> tuple[Threat, ...]:
        """The threats that are not fully held."""
        return tuple(threat for threat, row in self.protections.items() if row.held is not ProtectionLevel.HELD)


class SandboxBackend(Protocol):
    """A kind of isolation. One object per process; thread-safe."""

    @property
    def tier(self) -> SandboxTier:
        """The kind of isolation."""
        ...

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """How well each threat is held on this machine."""
        ...

    def probe(self) -> ProbeResult:
        """Start a real sandbox once, within `PROBE_TIMEOUT_S`."""
        ...

    def start(self, spec: SandboxSpec) -> Launched:
        """Start an agent; raises `SandboxStartFailed`."""
        ...

    def close(self) -> None:
        """End everything it started. Safe to call twice."""
        ...
