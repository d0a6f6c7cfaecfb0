"""The backends that attacks can be tried on here: which work, how each is opened, what each declares not to hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from agentgym.tools.sandbox import Sandbox, SandboxSpec, SandboxTier, open_sandbox
from agentgym.tools.sandbox.protection import Held, Protection, Threat
from agentgym.tools.sandbox.registry import probe
from tests.tools.sandbox.attacks import server
from tests.tools.sandbox.attacks.attack import Attack
from tests.tools.sandbox.attacks.host import Host
from tests.tools.sandbox.attacks.steps import SPEC
from tests.tools.sandbox.attacks.strike import Verdict, can_write, look, strike

IMAGE = "AGENTGYM_TEST_IMAGE"
"""Environment variable with the Docker image of the tests: one that has Python and bash."""


class Place:
    """One backend that works here."""

    def __init__(self, tier: SandboxTier, host: Host):
        self.tier = tier
        self._host = host
        self.protections: Mapping[Threat, Protection] = probe(tier).protections
        self._ready: Sandbox | None = open_on(tier)
        self.fresh = look(self._ready)
        """What a program sees in a fresh sandbox."""
        self._holds_files = self.protections[Threat.FILES].held is not Held.OPEN and not can_write(self._ready, host)

    def open(self, spec: SandboxSpec = SPEC) -> Sandbox:
        """Open a sandbox."""
        return open_on(self.tier, spec)

    def strike(self, attack: Attack) -> Verdict:
        """Carry out an attack. The sandbox that was opened to see that it is clean serves for the next one."""
        sandbox, self._ready = self._ready or self.open(), None
        verdict, self._ready = strike(attack, self._host, sandbox, self.open, self.fresh, holds_files=self._holds_files)
        return verdict

    def declared(self, attack: Attack) -> str:
        """Return what the backend says about why it does not hold this attack; nothing if it says that it does."""
        threats = attack.threats if attack.stays_inside else (*attack.threats, Threat.FILES)
        for threat in dict.fromkeys(threats):
            protection = self.protections[threat]
            if protection.held is Held.OPEN or (
                protection.held is Held.PARTLY and attack.edge and threat in attack.threats
            ):
                return f"{self.tier}: {threat} is {protection.held}: {protection.how}"
        return ""

    def close(self) -> None:
        """Close the sandbox that is ready."""
        if self._ready is not None:
            self._ready.close()


def open_on(tier: SandboxTier, spec: SandboxSpec = SPEC) -> Sandbox:
    """Open a sandbox of a backend."""
    if tier is SandboxTier.DOCKER:
        spec = replace(spec, image=os.environ[IMAGE])
    return open_sandbox(spec, backend=tier.value, allow_weak=tier is SandboxTier.RLIMITS)


def why_not(tier: SandboxTier) -> str:
    """Return why a backend cannot be attacked here; nothing if it can."""
    if tier is SandboxTier.REMOTE and (reason := server.started()):
        return reason
    if not (found := probe(tier)).works:
        return f"{tier} does not work here: {found.why}"
    if tier is SandboxTier.DOCKER and IMAGE not in os.environ:
        return f"{IMAGE} is not set"
    return ""
