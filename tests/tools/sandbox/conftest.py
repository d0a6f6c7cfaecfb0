"""Fixtures of the sandbox tests."""

from __future__ import annotations

import pytest

from agentgym.tools.sandbox import SandboxTier
from tests.tools.sandbox.tiers import LOCAL, tier_of


@pytest.fixture(scope="module", params=LOCAL)
def tier(request: pytest.FixtureRequest) -> SandboxTier:
    """Each local tier, or those of an indirect parametrisation."""
    return tier_of(request.param)
