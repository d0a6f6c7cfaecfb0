"""The backend interface: start isolated agents, kill them from outside, and declare the protections they offer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.protection import Protection, ProtectionLevel, Threat
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

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
