"""Fixtures of the sandbox tests."""

from __future__ import annotations

import pytest

from agentgym.tools.sandbox import SandboxTier
from tests.tools.sandbox.tiers import LOCAL, chosen


@pytest.fixture(scope="module", params=LOCAL)
def tier(request: pytest.FixtureRequest) -> SandboxTier:
    """Each local tier in turn, or those of an indirect parametrisation."""
    return chosen(request.param)
