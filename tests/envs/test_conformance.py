"""Every registered environment keeps every promise of the conformance suite. A new one is picked up by itself."""

from __future__ import annotations

from functools import cache
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


FAST = ("agentgym/guess-v0", "agentgym/sql-v0", "agentgym/errand-v0")
"""Environments that need neither a sandbox nor a browser."""


def _case(env_id: str, kwargs: dict[str, Any]) -> Any:
    marks = [pytest.mark.xdist_group(_group(env_id, kwargs)), *_browser_marks(env_id)]
    if env_id in IDS and kwargs:
        marks.append(pytest.mark.nightly)
    elif env_id not in FAST:
        marks.append(pytest.mark.real)
    return pytest.param(env_id, kwargs, id=" ".join([env_id, *map(str, kwargs.values())]), marks=marks)


TIME_LIMIT_S = 1_800.0
"""How long a check may take: a machine that is busy with other tests is no reason to fail."""


@cache
def report(env_id: str) -> Report:
    """Run the suite on an environment with its default arguments."""
    return run_checks(env_id, {}, timeout_s=TIME_LIMIT_S)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("env_id", "kwargs"), [_case(*case) for case in CHOSEN])
def test_environment_passes_every_check(env_id: str, kwargs: dict[str, Any]):
    rows = (run_checks(env_id, kwargs, timeout_s=TIME_LIMIT_S) if kwargs else report(env_id)).rows
    broken = [row for row in rows if row.status in (CheckStatus.FAIL, CheckStatus.ERROR)]
    assert [f"{row.name}, {row.promise}: {row.message}" for row in broken] == []
    # Solutions of one action leave three checks nothing to do, and a gold that the data contain as well two.
    skipped = [f"{row.name}: {row.message}" for row in rows if row.status is CheckStatus.SKIP]
    assert len(skipped) <= 5, skipped


def test_no_environment_is_forgotten():
    """Every class of the package is among the cases, and every id that does not share its class with a chosen one."""
    env_ids = {env_id for env_id, _ in CHOSEN}
    classes = {ENVIRONMENTS[env_id][0] for env_id in env_ids}
    assert classes == {where for where, _ in ENVIRONMENTS.values()}
    left_out = set(ENVIRONMENTS) - env_ids
    assert left_out == {env_id for env_id in ENVIRONMENTS if env_id.startswith(MINIWOB)} - env_ids
    assert env_ids <= set(list_environments())


def test_the_groups_that_start_first_are_there():
    groups = {_group(env_id, kwargs) for env_id, kwargs in CHOSEN}
    root = Path(__file__).parents[2]
    assert [group for group in FIRST if group not in groups and not (root / group).is_file()] == []


@pytest.mark.xdist_group("known")
def test_groups_are_known_to_what_gives_tests_to_workers(request: pytest.FixtureRequest):
    """Otherwise one worker gets all environments, silently, and the others wait for it."""
    if not request.config.getoption("loadgroup", False):
        pytest.skip("needs --dist loadgroup")
    assert request.node.nodeid.endswith("@known")


@pytest.mark.xdist_group(_group(ALL_CHECKS[0], {}))  # whose reports are there then
def test_sql_and_errand_exercise_every_check():
    """A check that no environment exercises would guarantee nothing."""
    rows = [row for env_id in ALL_CHECKS for row in report(env_id).rows]
    assert {row.name for row in rows if row.status is CheckStatus.PASS} == set(check_names())
