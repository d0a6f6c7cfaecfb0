"""This process's backends, one per tier and probed once, and the choice among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.loading import load_named
from agentgym.tools.sandbox.backend import ProbeResult, ProtectionLevel, SandboxBackend
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_WHERE = {
    SandboxTier.NAMESPACES: "agentgym.tools.sandbox.namespaces:NamespacesBackend",
    SandboxTier.LANDLOCK: "agentgym.tools.sandbox.landlock:LandlockBackend",
    SandboxTier.RLIMITS: "agentgym.tools.sandbox.rlimits:RlimitsBackend",
    SandboxTier.DOCKER: "agentgym.tools.sandbox.containers.backend:DockerBackend",
    SandboxTier.REMOTE: "agentgym.tools.sandbox.remote:RemoteBackend",
}
AUTOMATIC = (SandboxTier.NAMESPACES, SandboxTier.LANDLOCK)
"""The candidates for `"auto"`, best first. The weak tier is chosen only if the caller allows it."""
WEAK = frozenset({SandboxTier.RLIMITS})

_lock = threading.RLock()
_backends: dict[SandboxTier, SandboxBackend] = {}
_probes: dict[SandboxTier, ProbeResult] = {}


def backend(tier: SandboxTier) -> SandboxBackend:
    """Return this process's backend of a tier."""
    with _lock:
        if tier not in _backends:
            _backends[tier] = load_named(_WHERE[tier], "a sandbox backend")()
        return _backends[tier]


def probe(tier: SandboxTier) -> ProbeResult:
    """Return the result of trying a tier on this machine; it is tried once per process."""
    with _lock:
        if tier not in _probes:
            try:
                _probes[tier] = backend(tier).probe()
            except (InfrastructureError, ImportError, OSError, AttributeError) as error:
                _probes[tier] = ProbeResult(tier, False, str(error))
        return _probes[tier]


def backends() -> tuple[ProbeResult, ...]:
    """Return whether each tier works here, why, and what it protects from."""
    return tuple(probe(tier) for tier in _WHERE)


def automatic(allow_weak: bool = False) -> SandboxTier | None:
    """Return the tier that `"auto"` chooses on this machine, or `None` if none works."""
    candidates = (*AUTOMATIC, *(sorted(WEAK) if allow_weak else ()))
    return next((tier for tier in candidates if probe(tier).works), None)


def choose(name: str | SandboxBackend, spec: SandboxSpec, allow_weak: bool) -> SandboxBackend:
    """Return the requested backend, given itself or by name; `"auto"` is the best one that works here."""
    if not isinstance(name, str):
        return name
    if name != "auto":
        return _named(name, allow_weak)
    if spec.image is not None:
        return _named(SandboxTier.DOCKER, allow_weak)
    tier = automatic(allow_weak)
    if tier is not None:
        return backend(tier)
    reasons = [f"{tier}: {probe(tier).why}" for tier in AUTOMATIC]
    raise InfrastructureError(
        "no secure sandbox works on this machine ("
        + "; ".join(reasons)
        + "); use backend='docker', or allow_weak=True for code that you trust"
    )


def _named(name: str, allow_weak: bool) -> SandboxBackend:
    try:
        tier = SandboxTier(name)
    except ValueError:
        raise UsageError(f"unknown sandbox backend {name!r}; choose one of auto, {', '.join(SandboxTier)}") from None
    if tier in WEAK and not allow_weak:
        raise UsageError(f"the {tier} backend does not contain malicious code; pass allow_weak=True to use it anyway")
    result = probe(tier)
    if not result.works:
        raise InfrastructureError(f"the {tier} sandbox does not work on this machine: {result.why}")
    return backend(tier)


def notes(backend_in_use: SandboxBackend, more: str = "") -> str:
    """Return one line about a sandbox: its tier, the threats it does not fully hold, and further notes."""
    gaps = [threat for threat, row in backend_in_use.protections.items() if row.held is not ProtectionLevel.HELD]
    line = f"{backend_in_use.tier}: " + (f"not fully held: {', '.join(gaps)}" if gaps else "every threat is held")
    return f"{line}; {more}" if more else line


def close_backends() -> None:
    """Kill everything that this process's backends started."""
    with _lock:
        started = list(_backends.values())
        _backends.clear()
        _probes.clear()
    for started_backend in started:
        started_backend.close()


def _after_fork_in_child() -> None:
    """Forget the parent's backends: the child must not kill its sandboxes."""
    global _lock
    _lock = threading.RLock()
    _abandoned.extend(_backends.values())
    _backends.clear()


_abandoned: list[SandboxBackend] = []
_reset: Callable[[], None] = _after_fork_in_child
os.register_at_fork(after_in_child=_reset)
