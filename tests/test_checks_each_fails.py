"""No check is empty: each is in the suite, passes a sound environment, and fails one that breaks its promise."""

from __future__ import annotations

import importlib
import io
import pkgutil
from pathlib import Path

import pytest
from rich.console import Console

from agentgym import checks
from agentgym.checks import CHECKS, Check, Status, check_names, print_report, run_checks
from tests.test_checks import BROKEN, BROKEN_ELSEWHERE

BROKEN_CONTRACTS = {
    "gymnasium": ("WrongSpace", ""),
    "wrappers": ("FourValues", "not enough values to unpack"),
    "vector-sync": ("NumbersItself", "alone and in the vector"),
    "group-identity": ("NumbersItself", "again"),
    "deterministic": ("CountsLooks", "again"),
    "replay": ("CountsLooks", "observation differs"),
    "async-twin": ("OtherOnALoop", "on an event loop"),
    "spawns": ("KnowsItIsACopy", "I was copied"),
    "tool-schemas": ("HidesATool", "does not list look, answer"),
    "reset-needed": ("StepsBeforeReset", "before the first reset was accepted"),
}
NOT_JUDGED = {"latency"}
"""Checks that only tell something."""


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


@pytest.mark.parametrize("name", BROKEN_CONTRACTS)
def test_a_broken_promise_is_found(name: str):
    env, phrase = BROKEN_CONTRACTS[name]
    row = run_checks(f"tests.broken_contracts:{env}", only=[name]).row(name)
    assert row.status in (Status.FAIL, Status.ERROR)
    assert phrase in row.message


def test_every_check_is_seen_to_fail_somewhere():
    """With those of `test_checks`; that all of them pass a sound environment is tested there."""
    seen = {check for _, check, *_ in (*BROKEN, *BROKEN_ELSEWHERE)} | set(BROKEN_CONTRACTS)
    assert set(check_names()) - NOT_JUDGED - seen == set()


def test_every_check_that_is_written_is_in_the_suite():
    modules = [
        importlib.import_module(f"agentgym.checks.{found.name}") for found in pkgutil.iter_modules(checks.__path__)
    ]
    written = {value.name for module in modules for value in vars(module).values() if isinstance(value, Check)}
    assert written == {check.name for check in CHECKS}


def test_a_report_in_which_nothing_passed_is_no_success():
    report = run_checks("tests.sound_envs:SoundTalkEnv", only=["tool-schemas", "tool-mistakes"])
    assert [row.status for row in report.rows] == [Status.SKIP, Status.SKIP]
    assert not report.passed
    out = io.StringIO()
    print_report(report, Console(file=out, width=200))
    assert "was not checked: 2 skip" in out.getvalue()


def test_one_check_that_passed_beside_others_that_do_not_apply_is_a_success():
    assert run_checks("tests.sound_envs:SoundTalkEnv", only=["tool-schemas", "makes"]).passed
