"""Every registered environment keeps every promise of the conformance suite. A new one is picked up by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym.checks import CheckStatus, Report, check_names, run_checks
from agentgym.envs.catalog import ENVIRONMENTS, ON_FILES
from agentgym.registry import list_environments
from tests.browsers import why_no_browser
from tests.conftest import FIRST

MINIWOB = "agentgym/miniwob-"
"""One class under many ids: what differs, the pages, is tested page by page in `test_miniwob.py`."""
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("agentgym/sql-v0", {"engine": "sqlite", "show_schema": "prompt"}),
    ("agentgym/code-v0", {"tools": "files+bash+test", "stateful": False, "difficulty": 2}),
    ("agentgym/search-v0", {"mode": ["adasearch", "reseek"], "results": "passages"}),
    ("agentgym/web-v0", {"difficulty": 2, "max_turns": 12}),
    ("agentgym/miniwob-click-button-v0", {}),
]
"""Other settings of an environment are checked on tasks of one level where all of them take long."""
ELSEWHERE = (MINIWOB, "agentgym/web-")
"""Ids that are in `VARIANTS` only: all levels of `web` would take several times as long."""
IDS = [
    name
    for name in list_environments()
    if name.startswith("agentgym/") and not name.startswith(ELSEWHERE) and name not in ON_FILES
]
CHOSEN = [*((env_id, {}) for env_id in IDS), *VARIANTS]


def _browser_marks(env_id: str) -> list[pytest.MarkDecorator]:
    if not env_id.startswith(ELSEWHERE):
        return []
    return [pytest.mark.web, pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser())]


ALL_CHECKS = ("agentgym/sql-v0", "agentgym/errand-v0")
"""Environments that together have something for every check. One group, since a test reads both reports."""


def _group(env_id: str, kwargs: dict[str, Any]) -> str:
    return " ".join([ALL_CHECKS[0] if env_id in ALL_CHECKS else env_id, *kwargs])


CASES = [
    pytest.param(
        env_id,
        kwargs,
        id=" ".join([env_id, *map(str, kwargs.values())]),
        marks=[pytest.mark.xdist_group(_group(env_id, kwargs)), *_browser_marks(env_id)],
    )
    for env_id, kwargs in CHOSEN
]

_reports: dict[str, Report] = {}


def report(env_id: str, kwargs: dict[str, Any]) -> Report:
    """The suite runs once for each environment, however many tests look at it."""
    key = f"{env_id} {kwargs}"
    if key not in _reports:
        _reports[key] = run_checks(env_id, kwargs)
    return _reports[key]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize(("env_id", "kwargs"), CASES)
def test_every_environment_keeps_every_promise(env_id: str, kwargs: dict[str, Any], name: str):
    row = report(env_id, kwargs).row(name)
    assert row.status in (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.SKIP), f"{row.promise}: {row.message}"


@pytest.mark.parametrize(("env_id", "kwargs"), CASES)
def test_hardly_any_check_is_skipped(env_id: str, kwargs: dict[str, Any]):
    """Solutions of one action leave three checks nothing to do, a gold that the data has as well two."""
    skipped = [f"{row.name}: {row.message}" for row in report(env_id, kwargs).rows if row.status is CheckStatus.SKIP]
    assert len(skipped) <= 5, skipped


def test_no_environment_is_forgotten():
    """Every class of the package is among the cases, and every id that does not share its class with a chosen one."""
    chosen = {env_id for env_id, _ in CHOSEN}
    classes = {ENVIRONMENTS[env_id][0] for env_id in chosen}
    assert classes == {where for where, _ in ENVIRONMENTS.values()}
    left_out = set(ENVIRONMENTS) - chosen
    assert left_out == {env_id for env_id in ENVIRONMENTS if env_id.startswith(MINIWOB)} - chosen
    assert chosen <= set(list_environments())


def test_the_groups_that_start_first_are_there():
    groups = {_group(env_id, kwargs) for env_id, kwargs in CHOSEN}
    root = Path(__file__).parent.parent
    assert [group for group in FIRST if group not in groups and not (root / group).is_file()] == []


@pytest.mark.xdist_group("known")
def test_groups_are_known_to_what_gives_tests_to_workers(request: pytest.FixtureRequest):
    """Otherwise one worker gets all environments, silently, and the others wait for it."""
    if not request.config.getoption("loadgroup", False):
        pytest.skip("needs --dist loadgroup")
    assert request.node.nodeid.endswith("@known")


@pytest.mark.xdist_group(_group(ALL_CHECKS[0], {}))  # whose reports are there then
def test_every_check_is_kept_by_some_environment_that_needs_no_browser():
    """One that none of them can be put to would hold of nothing."""
    reports = [report(env_id, {}) for env_id in ALL_CHECKS]
    kept = {row.name for found in reports for row in found.rows if row.status is CheckStatus.PASS}
    assert kept == set(check_names())
