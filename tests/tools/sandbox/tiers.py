"""The tiers that sandbox tests run on: those that work on this machine; the others skip and say why."""

from __future__ import annotations

import pytest

from agentgym.tools.sandbox import Sandbox, SandboxLimits, SandboxSpec, SandboxTier, open_sandbox
from agentgym.tools.sandbox.registry import probe

LOCAL = (SandboxTier.NAMESPACES, SandboxTier.LANDLOCK, SandboxTier.RLIMITS)
SPEC = SandboxSpec(limits=SandboxLimits(wall_s=60, cpu_s=30))
"""Generous, as a busy machine must not fail a test."""


def open_on(tier: SandboxTier, spec: SandboxSpec = SPEC) -> Sandbox:
    found = probe(tier)
    if not found.works:
        pytest.skip(f"{tier}: {found.why}")
    return open_sandbox(spec, backend=tier, allow_weak=True)
