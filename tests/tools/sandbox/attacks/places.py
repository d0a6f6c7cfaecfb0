"""The backends to attack: which ones work here, how to open them, and what they declare not to hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from agentgym.tools.sandbox import Sandbox, SandboxSpec, SandboxTier, open_sandbox
from agentgym.tools.sandbox.backend import Protection, ProtectionLevel, Threat
from agentgym.tools.sandbox.registry import probe
from tests.tools.sandbox.attacks import server
from tests.tools.sandbox.attacks.attack import Attack
from tests.tools.sandbox.attacks.host import Host
from tests.tools.sandbox.attacks.steps import SPEC
from tests.tools.sandbox.attacks.strike import Verdict, can_write, look, strike

IMAGE = "AGENTGYM_TEST_IMAGE"
"""Environment variable with the Docker image of the tests, which has Python and bash."""


class Place:
    """A backend that works here."""

    def __init__(self, tier: SandboxTier, host: Host):
        self.tier = tier
        self._host = host
        self.protections: Mapping[Threat, Protection] = probe(tier).protections
        self._ready: Sandbox | None = open_on(tier)
        self.fresh = look(self._ready)
        """The view of a program in a fresh sandbox."""
        self._holds_files = self.protections[Threat.FILES].held is not ProtectionLevel.OPEN and not can_write(
            self._ready, host
        )

    def open(self, spec: SandboxSpec = SPEC) -> Sandbox:
        return open_on(self.tier, spec)

    def strike(self, attack: Attack) -> Verdict:
        """Carry out an attack. The fresh sandbox that was opened for the final comparison is used by the next one."""
        sandbox, self._ready = self._ready or self.open(), None
        verdict, self._ready = strike(attack, self._host, sandbox, self.open, self.fresh, holds_files=self._holds_files)
        return verdict

    def declared(self, attack: Attack) -> str:
        """Return the backend's reason for not holding this attack; empty if it declares to hold it."""
        threats = attack.threats if attack.stays_inside else (*attack.threats, Threat.FILES)
        for threat in dict.fromkeys(threats):
            protection = self.protections[threat]
            if protection.held is ProtectionLevel.OPEN or (
                protection.held is ProtectionLevel.PARTLY and attack.edge and threat in attack.threats
            ):
                return f"{self.tier}: {threat} is {protection.held}: {protection.how}"
        return ""

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()


def open_on(tier: SandboxTier, spec: SandboxSpec = SPEC) -> Sandbox:
    if tier is SandboxTier.DOCKER:
        spec = replace(spec, image=os.environ[IMAGE])
    return open_sandbox(spec, backend=tier.value, allow_weak=tier is SandboxTier.RLIMITS)


def why_not(tier: SandboxTier) -> str:
    """Return why a backend cannot be attacked here; empty if it can."""
    if tier is SandboxTier.REMOTE and (reason := server.started()):
        return reason
    if not (result := probe(tier)).works:
        return f"{tier} does not work here: {result.why}"
    if tier is SandboxTier.DOCKER and IMAGE not in os.environ:
        return f"{IMAGE} is not set"
    return ""
