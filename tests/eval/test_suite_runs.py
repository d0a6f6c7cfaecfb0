from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.cli.app import app
from agentgym.cli.suite_runs import SuitesRequest, run_suites
from agentgym.core.policy import Player, Seat, SilentPolicy
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.results.folder import read_results
from agentgym.eval.suites import Suite, load_suite
from agentgym.eval.suites.pinning import pin_tasks
from tests.rows import each_row

SUITE = """\
name: pair
version: 1
entries:
  - env: guess
    attempts: 2
  - env: errand
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pair.yaml"
    path.write_text(SUITE)
    for name in ("guess", "errand"):
        pin_tasks(path, name, "test", 3)
    return path


@pytest.fixture
def suite(file: Path) -> Suite:
    return load_suite(file)


def test_every_policy_plays_every_entry(suite: Suite, tmp_path: Path):
    report = run_suites(SuitesRequest([suite], ["scripted", "random"], out=tmp_path / "out"))
    assert [(pair.entry.name, pair.policy) for pair in report.pairs] == [
        ("guess", "scripted"),
        ("guess", "random"),
        ("errand", "scripted"),
        ("errand", "random"),
    ]
    assert (report.success(suite, "scripted"), report.broken) == (1.0, False)
    assert (report.success(suite, "random") or 0.0) < 1.0
    attempts = [pair.summary.overall.attempts for pair in report.pairs if pair.summary is not None]
    assert attempts == [6, 6, 3, 3]


def test_the_folder_records_results_and_provenance(suite: Suite, tmp_path: Path):
    run_suites(SuitesRequest([suite], ["scripted"], out=tmp_path / "out", seed=7))
    results = read_results(tmp_path / "out")
    assert results["suites"] == [suite.id.to_dict()]
    assert results["seed"] == 7
    assert [(row["entry"], row["summary"]["overall"]["success"]) for row in results["results"]] == [
        ("errand", 1.0),
        ("guess", 1.0),
    ]
    for row in results["results"]:
        recorded = list(read_jsonl(tmp_path / "out" / row["trajectories"]))
        assert len(recorded) == row["summary"]["overall"]["attempts"]
    [run] = json.loads((tmp_path / "out" / "run.json").read_text())["runs"]
    assert {"command", "started", "ended", "agentgym", "python", "packages", "machine"} <= run.keys()


@each_row("change", [{"seed": 1}, {"attempts": 3}])
def test_a_folder_is_not_continued_with_other_settings(suite: Suite, tmp_path: Path, change: dict[str, Any]):
    run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    with pytest.raises(UsageError, match="holds results with other"):
        run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out", **change))


def test_a_folder_is_not_continued_with_another_version_of_the_suite(suite: Suite, file: Path, tmp_path: Path):
    run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    pin_tasks(file, "guess", "train", 3)
    with pytest.raises(UsageError, match="holds results with other suites"):
        run_suites(SuitesRequest([load_suite(file)], ["silent"], out=tmp_path / "out"))


@each_row(
    ("name", "content"),
    [("results.json", '{"schema": 1}'), ("run.json", "x")],
)
def test_a_folder_that_cannot_be_read_is_refused_and_left_as_it_is(
    suite: Suite, tmp_path: Path, name: str, content: str
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(UsageError, match=name):
        run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    assert (tmp_path / "out" / name).read_text() == content


def test_the_command_plays_a_suite_and_judges_by_the_share(file: Path, tmp_path: Path):
    command = ["eval", "--suite", str(file), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--fail-under", "1"])
    assert result.exit_code == 0, result.output
    assert "100.0 %" in result.output
    assert CliRunner().invoke(app, [*command, "--policy", "silent", "--fail-under", "0.5"]).exit_code == 1
    result_json = CliRunner().invoke(app, [*command, "--policy", "scripted", "--policy", "silent", "--json"])
    assert [row["policy"] for row in json.loads(result_json.stdout)["results"]] == ["scripted", "silent"] * 2


@each_row(
    ("options", "message"),
    [
        (["--suite", "pair", "--env", "guess"], "cannot be used together"),
        (["--suite", "pair", "--set", "max_turns=3"], "the suite decides that"),
        (["--env", "guess", "--policy", "silent", "--policy", "silent"], "named twice"),
        (["--suite", "no-such-suite"], "unknown suite 'no-such-suite'"),
        (["--rescore", __file__, "--policy", "silent"], "plays what was recorded"),
    ],
)
def test_conflicting_options_are_refused_with_the_reason(options: list[str], message: str):
    result = CliRunner().invoke(app, ["eval", *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_several_policies_play_one_environment_and_are_compared_on_the_same_tasks(tmp_path: Path):
    command = ["eval", "--env", "guess", "-n", "6", "--set", "max_turns=20", "--out", str(tmp_path / "out")]
    policies = ["--policy", "silent", "--policy", "scripted"]
    result = CliRunner().invoke(app, [*command, *policies])
    assert result.exit_code == 0, result.output
    for part in ("success on guess-v0", "silent", "100.0 %", "compared with silent", "+100.0"):
        assert part in result.output
    data = json.loads(CliRunner().invoke(app, [*command, *policies, "--json"]).stdout)
    assert [(row["policy"], row["summary"]["overall"]["success"]) for row in data["results"]] == [
        ("silent", 0.0),
        ("scripted", 1.0),
    ]
    [difference] = data["differences"]
    assert (difference["a"]["policy"], difference["b"]["policy"]) == ("silent", "scripted")
    assert (difference["overall"]["won"], difference["overall"]["lost"]) == (6, 0)
    files = (tmp_path / "out/trajectories").glob("*.jsonl")
    assert sorted(len(list(read_jsonl(path))) for path in files) == [6, 6], "nothing was played twice"


def test_a_policy_that_is_not_compared_is_named_with_the_reason(suite: Suite, tmp_path: Path):
    policies = ["silent", "no_such_module:policy", "tests.eval.test_suite_runs:Unreachable", "scripted"]
    report = run_suites(SuitesRequest([suite], policies, out=tmp_path / "out"))
    assert [(row.b.policy, row.overall.success.tasks) for row in report.differences] == [("scripted", 6)]
    assert report.not_compared == {
        "no_such_module:policy": "guess could not be played",
        "tests.eval.test_suite_runs:Unreachable": "no episode on guess came to its end",
    }
    assert report.to_dict()["not_compared"] == report.not_compared


class Unreachable(SilentPolicy):
    """A model whose endpoint is down."""

    name = "unreachable"

    def player(self, seat: Seat) -> Player:
        raise InfrastructureError("the endpoint is gone")
