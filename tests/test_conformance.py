"""Every registered environment keeps every promise of the conformance suite. A new one is picked up by itself."""

from __future__ import annotations

from functools import cache

import pytest

from agentgym.checks import Report, Status, check_names, run_checks
from agentgym.registry import list_environments


@cache
def report(env_id: str) -> Report:
    return run_checks(env_id)


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize("env_id", list_environments())
def test_every_environment_keeps_every_promise(env_id: str, name: str):
    row = report(env_id).row(name)
    assert row.status in (Status.PASS, Status.SKIP), f"{row.promise}: {row.message}"


@pytest.mark.parametrize("env_id", list_environments())
def test_hardly_any_check_is_skipped(env_id: str):
    skipped = [f"{row.name}: {row.message}" for row in report(env_id).rows if row.status is Status.SKIP]
    assert len(skipped) <= 3, skipped
