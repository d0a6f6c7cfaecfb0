"""The tiers for sandbox tests: the strongest of this machine for tests marked `real`, all others nightly."""

from __future__ import annotations

import pytest

from agentgym.tools.sandbox import Sandbox, SandboxLimits, SandboxSpec, SandboxTier, open_sandbox
from agentgym.tools.sandbox.registry import automatic, probe
from tests.tools.sandbox.attacks.places import why_not

STRONGEST = "strongest"
HOLDING = [STRONGEST, pytest.param("landlock", marks=pytest.mark.nightly)]
"""The local tiers that contain hostile code, for the fixture `tier`; namespaces are the strongest if they work."""
LOCAL = [*HOLDING, pytest.param("rlimits", marks=pytest.mark.nightly)]
EVERY = [*LOCAL, pytest.param("docker", marks=pytest.mark.docker), pytest.param("remote", marks=pytest.mark.nightly)]
"""Remote sandboxes are those of a server on this machine."""
SPEC = SandboxSpec(limits=SandboxLimits(wall_s=60, cpu_s=30))
"""Generous limits, so that a busy machine does not fail a test."""


def tier_of(name: str) -> SandboxTier:
    """Return the tier for a parameter of the fixture `tier`; skip the test if that tier should not be tested."""
    strongest = automatic()
    if strongest is None:
        pytest.skip("no backend but the weak one works here")
    if name == STRONGEST:
        return strongest
    tier = SandboxTier(name)
    if tier is strongest:
        pytest.skip(f"{tier} is the strongest tier of this machine, which the tier real tests")
    if reason := why_not(tier):
        pytest.skip(reason)
    return tier


def open_on(tier: SandboxTier, spec: SandboxSpec = SPEC) -> Sandbox:
    if not probe(tier).works:
        pytest.skip(f"{tier}: {probe(tier).why}")
    return open_sandbox(spec, backend=tier, allow_weak=True)
