"""What backends declare not to hold is not tried on them; no attack and no backend may be declared away altogether."""

from __future__ import annotations

import os

import pytest

from agentgym.tools.sandbox import SandboxTier
from agentgym.tools.sandbox.protection import Held, Threat
from agentgym.tools.sandbox.registry import probe
from tests.tools.sandbox.attacks import ATTACKS

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.name != "posix", reason="sandboxes are for POSIX systems")]

WEAK = {SandboxTier.RLIMITS}
NOWHERE_HELD = {Threat.SIDE_CHANNELS}
"""What no backend can keep from its programs: the load of the machine."""


def unheld(tier: SandboxTier) -> set[Threat]:
    return {threat for threat, protection in probe(tier).protections.items() if protection.held is Held.OPEN}


def test_every_attack_is_tried_on_some_backend():
    # A backend that cannot work here may not know what it would hold.
    declared = [unheld(tier) - NOWHERE_HELD for tier in SandboxTier if probe(tier).protections]
    nowhere = [attack.name for attack in ATTACKS if all(open_ & set(attack.threats) for open_ in declared)]
    assert declared
    assert nowhere == []


@pytest.mark.parametrize("tier", sorted(set(SandboxTier) - WEAK))
def test_a_backend_that_is_not_weak_is_put_to_nearly_every_attack(tier: SandboxTier):
    skipped = [attack.name for attack in ATTACKS if unheld(tier) & set(attack.threats)]
    assert len(skipped) <= 3, skipped


def test_some_backend_that_holds_works_here():
    """Else every attack would be skipped, and the suite would pass."""
    working = [tier for tier in SandboxTier if tier not in WEAK and probe(tier).works]
    if not working:
        pytest.skip(f"no backend but {', '.join(sorted(WEAK))} works here")
    assert working
