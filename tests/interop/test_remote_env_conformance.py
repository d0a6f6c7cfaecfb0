"""Served environments keep every promise of the conformance suite: the checks play them over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from agentgym.check import CheckStatus, Report, check_names, run_checks
from tests.served_envs import TOKEN, served_process

pytestmark = pytest.mark.nightly


SERVED = ("guess", "errand")
"""Every check for these; `test_remote_env.py` compares an episode of the other cheap ones."""


@pytest.fixture(scope="module")
def reports() -> Iterator[dict[str, Report]]:
    with served_process(*SERVED, options=["--reveal"]) as (url, _):
        settings: dict[str, Any] = {"url": url, "token": TOKEN}
        yield {
            env: run_checks("agentgym.interop.served.remote_env:RemoteEnv", {**settings, "env": env}) for env in SERVED
        }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize("env", SERVED)
def test_a_served_environment_keeps_every_promise(reports: dict[str, Report], env: str, name: str):
    row = reports[env].row(name)
    assert row.status in (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.SKIP), f"{row.promise}: {row.message}"
