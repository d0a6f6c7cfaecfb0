"""All checks in fresh processes: sound environments pass, subtle faults are detected with their cause."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from agentgym.check import CheckStatus, Report, check_names, run_checks
from agentgym.check.report import shown_rows
from agentgym.core.registry import register
from tests.check.sound_envs import SoundEnv
from tests.check.test_broken import ELSEWHERE, unnoticed
from tests.order_faults import FAULTS, Fault
from tests.orders import SOUND

pytestmark = pytest.mark.real

CAUSES = ("ChangesItsTask", "NumbersByTime", "RemembersCustomers", "KeepsLastCase")
"""Faults that make other checks fail too: these run all checks."""

DOES_NOT_APPLY = {"omissions-fail"}
"""Checks that do not apply to the sound environments, where an answer decides."""


ABOUT_ANSWERS = {"unfinished-fails", "enumeration-fails"}
"""Checks that do not apply where the state decides."""


@pytest.fixture(autouse=True)
def _temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@cache
def full_report(target: str) -> Report:
    return run_checks(target)


@pytest.mark.parametrize("env", ["SoundEnv", "SoundAsyncEnv", "SoundParallelEnv", "SoundOpenEnv", "SoundFailingEnv"])
def test_a_sound_environment_passes_all_checks(env: str):
    report = run_checks(f"tests.check.sound_envs:{env}")
    assert {row.name for row in report.rows if row.status is not CheckStatus.PASS} == DOES_NOT_APPLY
    assert [row.name for row in report.rows] == list(check_names())


def test_checks_of_tools_are_skipped_for_an_environment_without_tools():
    report = run_checks("tests.check.sound_envs:SoundTalkEnv")
    assert report.passed
    skipped = {row.name for row in report.rows if row.status is CheckStatus.SKIP}
    about_tools = {"tool-schemas", "tool-mistakes", "hostile-arguments"}
    about_longer_solutions = {"ending-alone-fails", "other-solution-fails", "omissions-fail"}
    about_secrets = {"gold-hidden-at-start", "gold-hidden-in-play"}
    assert skipped == about_tools | about_longer_solutions | about_secrets


@pytest.mark.parametrize("env", SOUND, ids=lambda env: env.__name__)
def test_a_sound_environment_that_resembles_a_fault_passes(env: type):
    report = run_checks(f"tests.orders:{env.__name__}")
    assert shown_rows(report, failures_only=True) == ()
    assert {row.name for row in report.rows if row.status is CheckStatus.SKIP} <= ABOUT_ANSWERS


@pytest.mark.parametrize("check", sorted({check for _, check, _ in ELSEWHERE}))
def test_a_fault_visible_only_in_a_fresh_process_is_detected(check: str):
    assert unnoticed([row for row in ELSEWHERE if row[1] == check]) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.env.__name__)
def test_a_subtle_fault_is_detected_with_its_cause(fault: Fault):
    target = f"tests.order_faults:{fault.env.__name__}"
    is_whole = fault.env.__name__ in CAUSES
    report = full_report(target) if is_whole else run_checks(target, only=["makes", fault.check])
    [row] = shown_rows(report, failures_only=True)
    assert fault.says in row.message
    assert report.passed == (row.status is CheckStatus.WARN)


@pytest.mark.parametrize("name", CAUSES)
def test_only_the_cause_fails_and_checks_it_explains_are_skipped(name: str):
    [fault] = [fault for fault in FAULTS if fault.env.__name__ == name]
    report = full_report(f"tests.order_faults:{name}")
    assert [row.name for row in report.problems] == [fault.check]
    explained = {row.name for row in report.rows if f"{fault.check!r} fails too" in row.message}
    assert explained
    assert {report.row(name).status for name in explained} == {CheckStatus.SKIP}


def test_an_environment_registered_at_run_time_can_be_checked_in_fresh_processes():
    register("strangers/boxes-v3", SoundEnv, max_turns=4)
    report = run_checks("strangers/boxes-v3", {"split": "test"}, only=["vector-async", "spawns", "max-turns"])
    assert report.passed
    assert report.row("max-turns").message == "max_turns is 4"
