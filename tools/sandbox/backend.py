"""What a backend is: something that starts walled-in agents, can end them from outside, and says what it holds."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.protection import Held, Protection, Threat
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

START_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 15.0
"""Long enough that a busy machine is not taken for one that offers less."""


class SandboxLost(InfrastructureError):
    """The sandbox is gone (it was killed, or the machinery around it broke); open another one."""


class SandboxStartFailed(InfrastructureError):
    """A sandbox could not be made; the message says at which step."""


@dataclass
class Launched:
    """A started agent, as a backend hands it over."""

    endpoint: socket.socket
    """The driver's end of the connection; it speaks the frames of `agent/wire.py`. The agent's first is its hello."""
    kill: Callable[[], None]
    """Ends everything in the sandbox from outside and leaves nothing behind. May be called twice."""
    workdir: str
    """Where the workspace is, as the sandboxed code sees it."""
    settings: Mapping[str, Any] | None = None
    """Sent as the first frame to an agent that waits for its settings; `None` if it has them already."""
    notes: str = ""


@dataclass(frozen=True)
class Probe:
    """What came of trying a backend on this machine."""

    tier: Tier
    works: bool
    why: str
    """What was done and seen, or the step that failed."""
    protections: Mapping[Threat, Protection] = field(default_factory=dict)

    @property
    def gaps(self) -> tuple[Threat, ...]:
        """The threats that are not wholly held."""
        return tuple(threat for threat, row in self.protections.items() if row.held is not Held.HELD)


class Backend(Protocol):
    """A way to hold code. One object per process; safe to use from several threads."""

    @property
    def tier(self) -> Tier:
        """Which kind it is."""
        ...

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """What it holds on this machine."""
        ...

    def probe(self) -> Probe:
        """Try the real thing once, within `PROBE_TIMEOUT_S`."""
        ...

    def start(self, spec: SandboxSpec) -> Launched:
        """Start an agent; raises `SandboxStartFailed`."""
        ...

    def close(self) -> None:
        """End everything it started. Safe to call twice."""
        ...
