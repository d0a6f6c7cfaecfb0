"""The sandboxes that a server offers: taken from its own pool, and driven by whole frames."""

from __future__ import annotations

import contextlib
import socket
import threading

from agentgym.base.errors import InfrastructureError
from agentgym.tools.sandbox import registry
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Launched, SandboxBackend
from agentgym.tools.sandbox.connection import BlockingConnection, ConnectionBroken
from agentgym.tools.sandbox.pool import default_pool
from agentgym.tools.sandbox.serve import SandboxOffer
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_GRACE_S = 30.0


def offer_of(backend: str) -> SandboxOffer:
    """Return the offer of a server with this backend.

    Raises:
        InfrastructureError: If the backend does not work on this machine.
    """
    backend_in_use = registry.choose(backend, SandboxSpec(), False)
    return SandboxOffer(
        tier=backend_in_use.tier,
        notes=registry.notes(backend_in_use, ""),
        protections=backend_in_use.protections,
        images=backend_in_use.tier is SandboxTier.DOCKER
        or (backend == "auto" and registry.probe(SandboxTier.DOCKER).works),
        make=lambda spec: _tunnel(registry.choose(backend, spec, False), spec),
    )


def _tunnel(backend: SandboxBackend, spec: SandboxSpec) -> _Tunnel:
    launched = default_pool()._take(backend, spec)
    return _Tunnel(launched, registry.notes(backend, launched.notes))


class _Tunnel:
    """One sandbox with a remote driver."""

    def __init__(self, launched: Launched, notes: str) -> None:
        self.workdir = launched.workdir
        self.notes = notes
        self._busy = threading.Lock()
        self._launched = launched
        self._connection = BlockingConnection(launched.endpoint)

    def exchange(self, frame: bytes, at_most: int) -> bytes:
        """Forward a request and return the answer; fails if the agent stays silent or sends too much.

        Raises:
            InfrastructureError: If the sandbox has ended.
        """
        try:
            limits = _header_of_whole(frame).get("limits")
            wall_s = float(limits["wall_s"]) if isinstance(limits, dict) else 0.0
            with self._busy:
                return wire.encode(*self._connection.exchange(frame, wall_s + _GRACE_S, at_most))
        except ConnectionBroken as error:
            raise InfrastructureError(str(error)) from error
        except (wire.BadFrame, ValueError, LookupError, TypeError) as error:
            return wire.encode({"error": "invalid", "message": f"not a request: {error}"})

    def close(self) -> None:
        """Kill the sandbox; a request in progress fails."""
        with contextlib.suppress(OSError):  # the agent may have closed it
            self._launched.endpoint.shutdown(socket.SHUT_RDWR)
        self._launched.kill()
        with self._busy:
            self._launched.endpoint.close()


def _header_of_whole(frame: bytes) -> wire.Header:
    """Return the header of a complete frame; trailing bytes are rejected, as they would be another request."""
    header = wire.header_of(frame)
    sizes = header.get("blobs", [])
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise wire.BadFrame("the blob lengths are not non-negative integers")
    (header_bytes,) = wire.LENGTH.unpack_from(frame)
    announced = wire.LENGTH.size + header_bytes + sum(sizes)
    if len(frame) != announced:
        raise wire.BadFrame(f"the frame has {len(frame)} bytes but announced {announced}")
    return header
