"""Subtle faults are found, each by the check that names its cause; what comes near a fault and is sound passes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.checks import CHECKS, CheckStatus, Report, run_checks
from agentgym.checks.report import report_json, shown_rows
from agentgym.cli import app
from tests.order_faults import FAULTS, Fault
from tests.orders import SOUND, OrdersEnv

CAUSES = ("ChangesItsTask", "NumbersByTime", "RemembersCustomers", "KeepsLastCase")
"""Faults that make other checks fail too: all checks are put to these."""


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def target_of(env: type[OrdersEnv]) -> str:
    return f"{env.__module__}:{env.__name__}"


@cache
def full_report(name: str) -> Report:
    return run_checks(f"tests.order_faults:{name}")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.env.__name__)
def test_a_subtle_fault_is_found_and_its_cause_is_named(fault: Fault):
    name = fault.env.__name__
    report = full_report(name) if name in CAUSES else run_checks(target_of(fault.env), only=["makes", fault.check])
    [row] = shown_rows(report, failures_only=True)
    assert fault.says in row.message
    assert report.passed == (row.status is CheckStatus.WARN)


@pytest.mark.parametrize("env", SOUND, ids=lambda env: env.__name__)
def test_what_comes_near_a_fault_and_is_sound_passes(env: type[OrdersEnv]):
    report = run_checks(target_of(env))
    assert shown_rows(report, failures_only=True) == ()
    assert not {row.name for row in report.rows if row.status is CheckStatus.SKIP}


def test_at_least_sixteen_kinds_of_faults_are_tried():
    assert len({fault.env for fault in FAULTS}) == len(FAULTS) >= 16


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_the_only_failure_and_what_it_explains_is_skipped(name: str):
    [fault] = [fault for fault in FAULTS if fault.env.__name__ == name]
    report = full_report(name)
    assert [row.name for row in report.problems] == [fault.check]
    explained = {row.name for row in report.rows if f"fails as long as {fault.check!r} does" in row.message}
    assert explained
    assert all(report.row(one).status is CheckStatus.SKIP for one in explained)


def test_a_failure_without_its_cause_among_the_checks_is_a_failure():
    report = run_checks("tests.order_faults:NumbersByChance", only=["replay"])
    assert [row.name for row in report.problems] == ["replay"]


def test_gold_that_cannot_be_told_from_the_data_is_not_said_to_be_hidden():
    report = run_checks("tests.sound_envs:SoundTalkEnv", only=["gold-hidden-at-start", "gold-hidden-in-play"])
    assert {row.status for row in report.rows} == {CheckStatus.SKIP}
    assert "no text or number that the task's data does not have" in report.rows[0].message


def test_a_report_as_json_has_every_check_and_its_message():
    report = run_checks("tests.broken_envs:WrongSolution", only=["makes", "solution-solves"])
    content = json.loads(report_json(report))
    assert (content["target"], content["passed"]) == ("tests.broken_envs:WrongSolution", False)
    assert [one["status"] for one in content["checks"]] == ["pass", "fail"]
    assert "fix solution()" in content["checks"][1]["message"]
    [only] = json.loads(report_json(report, failures_only=True))["checks"]
    assert only["name"] == "solution-solves"


def run_command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *arguments])
    return result.exit_code, result.stdout


def test_the_command_prints_one_json_object_whatever_the_environment_prints():
    code, output = run_command("tests.order_faults:Prints", "--json", "--only", "tool-mistakes", "--only", "plays")
    assert code == 0
    assert [one["name"] for one in json.loads(output)["checks"]] == ["plays", "tool-mistakes"]


def test_the_command_shows_failures_alone_on_request():
    code, output = run_command(
        "tests.broken_envs:WrongSolution", "--failures", "--only", "makes", "--only", "solution-solves"
    )
    assert code == 1
    assert "solution-solves" in output
    assert "it can be made" not in output
    assert "did not pass: 1 pass, 1 fail" in output


def test_the_command_shows_one_line_when_nothing_failed():
    code, output = run_command("guess", "--failures", "--only", "makes")
    assert (code, output.strip()) == (0, "guess passed: 1 pass")


def test_the_order_of_a_report_is_the_order_of_the_checks():
    report = run_checks("guess", only=["snapshot", "makes", "deterministic"])
    assert isinstance(report, Report)
    assert [row.name for row in report.rows] == ["makes", "deterministic", "snapshot"]


def test_the_documentation_lists_every_guarantee_in_order():
    text = (Path(__file__).parents[1] / "docs" / "check.md").read_text(encoding="utf-8")
    listed = text.partition("## All guarantees")[2]
    assert [line for line in listed.splitlines() if line.startswith("| `")] == [
        f"| `{check.name}` | {check.promise} |" for check in CHECKS
    ]
