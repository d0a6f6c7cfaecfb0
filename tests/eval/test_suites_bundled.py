"""The bundled suites load, match their files, and have the same tasks on every machine."""

from __future__ import annotations

import pytest

from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.eval.suites import bundled_suites, load_suite
from agentgym.eval.suites.pins import pin_file_of
from agentgym.eval.suites.validation import ValidationReport, compare_tasks, entry_sets, play_gold
from agentgym.tasks import SUITES
from agentgym.tasks.miniwob_pages import MINIWOB_PAGES

PUBLIC = {"2wiki", "gsm8k", "humaneval", "mbpp", "quixbugs", "spider"}
MINIWOB = "agentgym.envs.web:MiniWoBEnv"
GENERATED = {"code", "core", "search", "smoke", "sql", "swe", "web"}


def test_every_file_belongs_to_a_suite_of_its_name():
    assert set(bundled_suites()) == PUBLIC | GENERATED
    files = {path.name for name in bundled_suites() for path in (SUITES / f"{name}.yaml", SUITES / f"{name}.pins.json")}
    assert {path.name for path in SUITES.iterdir()} == files


@pytest.mark.parametrize("name", sorted(PUBLIC | GENERATED))
def test_each_suite_loads_with_a_description(name: str):
    suite = load_suite(name)
    assert (suite.name, bool(suite.description)) == (name, True)
    assert bool(suite.skipped) == (name in PUBLIC)
    assert pin_file_of(suite.file).stat().st_size < 100_000


def test_core_has_every_bundled_environment():
    envs = {entry.env for entry in load_suite("core").entries}
    alone = {env_id for env_id in ENVIRONMENTS if "miniwob-" not in env_id}
    assert envs == {env_id.removeprefix("agentgym/").removesuffix("-v0") for env_id in alone} | {MINIWOB}
    assert set(load_suite("core").entry("miniwob").arguments["page"]) < set(MINIWOB_PAGES)


def test_smoke_is_valid():
    suite, report = load_suite("smoke"), ValidationReport()
    sets = entry_sets([suite.entry(name) for name in ("guess", "errand", "sql")], report)
    compare_tasks(sets, report, near=0.9)
    play_gold(sets, report, concurrency=4)
    assert report.passed, report.to_dict()
    assert report.tasks == {"guess": 6, "errand": 6, "sql": 9}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["code", "search", "sql"])
def test_the_pins_of_generated_suites_hold(name: str):
    report = ValidationReport()
    entry_sets(load_suite(name).entries, report)
    assert (report.gone, report.changed, report.unchecked) == ({}, {}, {})
