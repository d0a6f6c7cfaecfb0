"""The backends of this process: one of each, probed once, and the choice among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib import import_module

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.backend import Backend, Probe
from agentgym.tools.sandbox.protection import Held
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

_WHERE = {
    Tier.NAMESPACES: ("namespaces", "NamespacesBackend"),
    Tier.LANDLOCK: ("landlock", "LandlockBackend"),
    Tier.RLIMITS: ("rlimits", "RlimitsBackend"),
    Tier.BUBBLEWRAP: ("bubblewrap", "BubblewrapBackend"),
    Tier.DOCKER: ("containers.backend", "DockerBackend"),
    Tier.REMOTE: ("remote", "RemoteBackend"),
}
AUTOMATIC = (Tier.NAMESPACES, Tier.LANDLOCK)
"""What `"auto"` may choose, best first. The tier without walls is chosen only if the caller allows it."""
WEAK = frozenset({Tier.RLIMITS})

_lock = threading.RLock()
_backends: dict[Tier, Backend] = {}
_probes: dict[Tier, Probe] = {}


def backend(tier: Tier) -> Backend:
    """Return this process's backend of a tier."""
    with _lock:
        if tier not in _backends:
            module, name = _WHERE[tier]
            _backends[tier] = getattr(import_module(f"agentgym.tools.sandbox.{module}"), name)()
        return _backends[tier]


def probe(tier: Tier) -> Probe:
    """Return what came of trying a tier on this machine; tried once per process."""
    with _lock:
        if tier not in _probes:
            try:
                _probes[tier] = backend(tier).probe()
            except (InfrastructureError, ImportError, OSError, AttributeError) as error:
                _probes[tier] = Probe(tier, False, str(error))
        return _probes[tier]


def backends() -> tuple[Probe, ...]:
    """Return, for every tier, whether it works here, why, and what it protects from."""
    return tuple(probe(tier) for tier in _WHERE)


def automatic(allow_weak: bool = False) -> Tier | None:
    """Return the tier that `"auto"` chooses on this machine, or `None` if none works."""
    candidates = (*AUTOMATIC, *(sorted(WEAK) if allow_weak else ()))
    return next((tier for tier in candidates if probe(tier).works), None)


def choose(name: str | Backend, spec: SandboxSpec, allow_weak: bool) -> Backend:
    """Return the backend that is asked for, itself or by name, or the best that works here for `"auto"`."""
    if not isinstance(name, str):
        return name
    if name != "auto":
        return _named(name, allow_weak)
    if spec.image is not None:
        return _named(Tier.DOCKER, allow_weak)
    tier = automatic(allow_weak)
    if tier is not None:
        return backend(tier)
    tried = [f"{each}: {probe(each).why}" for each in AUTOMATIC]
    raise InfrastructureError(
        "no sandbox with walls works on this machine ("
        + "; ".join(tried)
        + "); use backend='docker', or allow_weak=True for code that is trusted not to be malicious"
    )


def _named(name: str, allow_weak: bool) -> Backend:
    try:
        tier = Tier(name)
    except ValueError:
        raise UsageError(f"unknown sandbox backend {name!r}; choose one of auto, {', '.join(Tier)}") from None
    if tier in WEAK and not allow_weak:
        raise UsageError(f"the {tier} backend does not hold malicious code; pass allow_weak=True to use it anyway")
    found = probe(tier)
    if not found.works:
        raise InfrastructureError(f"the {tier} sandbox does not work on this machine: {found.why}")
    return backend(tier)


def notes(chosen: Backend, more: str = "") -> str:
    """Return one line about a sandbox: its tier, what that does not wholly protect from, what else there is to say."""
    gaps = [threat for threat, row in chosen.protections.items() if row.held is not Held.HELD]
    line = f"{chosen.tier}: " + (f"not wholly held: {', '.join(gaps)}" if gaps else "every threat is held")
    return f"{line}; {more}" if more else line


def close_backends() -> None:
    """End everything that the backends of this process started."""
    with _lock:
        started = list(_backends.values())
        _backends.clear()
        _probes.clear()
    for each in started:
        each.close()


def _after_fork_in_child() -> None:
    """Forget the parent's backends: its sandboxes are not ours to end."""
    global _lock
    _lock = threading.RLock()
    _abandoned.extend(_backends.values())
    _backends.clear()


_abandoned: list[Backend] = []
_reset: Callable[[], None] = _after_fork_in_child
os.register_at_fork(after_in_child=_reset)
