from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from agentgym.cli import app
from agentgym.commands import suite_runs
from agentgym.commands.evaluate import _preparation
from agentgym.commands.suite_runs import SuitesRequest, run_suites
from agentgym.errors import UsageError
from agentgym.policy import SilentPolicy
from agentgym.results.folder import read_results
from agentgym.suites import Suite, load_suite
from agentgym.suites.pinning import pin_tasks
from agentgym.trajectory import read_jsonl

PLAYED = ("scripted", "silent")
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


def test_the_folder_says_what_came_out_and_how_it_was_made(suite: Suite, tmp_path: Path):
    run_suites(SuitesRequest([suite], ["scripted"], out=tmp_path / "out", seed=7))
    found = read_results(tmp_path / "out")
    assert found["suites"] == [suite.id.to_dict()]
    assert found["seed"] == 7
    assert [(row["entry"], row["summary"]["overall"]["success"]) for row in found["results"]] == [
        ("errand", 1.0),
        ("guess", 1.0),
    ]
    for row in found["results"]:
        recorded = list(read_jsonl(tmp_path / "out" / row["trajectories"]))
        assert len(recorded) == row["summary"]["overall"]["attempts"]
    [run] = json.loads((tmp_path / "out" / "run.json").read_text())["runs"]
    assert {"command", "started", "ended", "agentgym", "python", "packages", "machine"} <= run.keys()


def test_the_same_seeds_give_the_same_results_file(suite: Suite, tmp_path: Path):
    for name in ("one", "other"):
        run_suites(SuitesRequest([suite], ["random"], out=tmp_path / name))
    assert (tmp_path / "one/results.json").read_bytes() == (tmp_path / "other/results.json").read_bytes()


def test_what_is_finished_is_not_played_again(suite: Suite, tmp_path: Path):
    request = SuitesRequest([suite], ["random"], out=tmp_path / "out")
    run_suites(request)
    contents = {path: path.read_bytes() for path in (tmp_path / "out/trajectories").glob("*.jsonl")}
    again = run_suites(request)
    assert not again.broken
    assert {path: path.read_bytes() for path in contents} == contents


@pytest.mark.parametrize("change", [{"seed": 1}, {"limit": 2}, {"attempts": 3}])
def test_a_folder_is_not_continued_with_other_settings(suite: Suite, tmp_path: Path, change: dict[str, Any]):
    run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    with pytest.raises(UsageError, match="holds results with other"):
        run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out", **change))


def test_a_folder_is_not_continued_with_another_version_of_the_suite(suite: Suite, file: Path, tmp_path: Path):
    run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    pin_tasks(file, "guess", "train", 3)
    with pytest.raises(UsageError, match="holds results with other suites"):
        run_suites(SuitesRequest([load_suite(file)], ["silent"], out=tmp_path / "out"))


def test_another_policy_is_added_to_the_folder(suite: Suite, tmp_path: Path):
    run_suites(SuitesRequest([suite], ["scripted"], out=tmp_path / "out"))
    run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    rows = read_results(tmp_path / "out")["results"]
    assert sorted({row["policy"] for row in rows}) == ["scripted", "silent"]
    assert len(json.loads((tmp_path / "out/run.json").read_text())["runs"]) == 2


def test_what_breaks_for_one_policy_does_not_stop_the_others(suite: Suite, tmp_path: Path):
    report = run_suites(SuitesRequest([suite], ["no_such_module:policy", "scripted"], out=tmp_path / "out"))
    assert report.broken
    errors = {pair.policy: pair.error for pair in report.pairs}
    assert "no_such_module" in (errors["no_such_module:policy"] or "")
    assert report.success(suite, "scripted") == 1.0
    assert report.success(suite, "no_such_module:policy") is None


def test_the_command_plays_a_suite_and_judges_by_the_share(file: Path, tmp_path: Path):
    command = ["eval", "--suite", str(file), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--fail-under", "1"])
    assert result.exit_code == 0, result.output
    assert "100.0 %" in result.output
    assert CliRunner().invoke(app, [*command, "--policy", "silent", "--fail-under", "0.5"]).exit_code == 1
    told = CliRunner().invoke(app, [*command, "--policy", "scripted", "--policy", "silent", "--json"])
    assert [row["policy"] for row in json.loads(told.stdout)["results"]] == ["scripted", "silent"] * 2


def test_a_log_says_each_result_when_it_is_there_and_what_a_model_needs_before_it_plays(file: Path):
    said = CliRunner().invoke(app, ["eval", "--suite", str(file), "--policy", "scripted", "--policy", "silent"]).stderr
    lines = [re.sub(r"[\d.]+ %  \S+", "SHARE", line) for line in said.splitlines()]
    wanted = [rf"{env}: {policy}: SHARE  \(3 tasks, \d+ s\)" for env in ("guess", "errand") for policy in PLAYED]
    assert len(lines) == len(wanted)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(wanted, lines, strict=True)), lines
    log = StringIO()
    tell = _preparation(Progress(console=Console(file=log), disable=True), "guess: tiny")
    for done in range(3):
        tell("warm start", done, 300)
    assert log.getvalue() == "guess: tiny: warm start …\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--suite", "pair", "--env", "guess"], "cannot be used together"),
        (["--suite", "pair", "--set", "max_turns=3"], "the suite decides that"),
        (["--suite", "pair", "--temperature", "0.5"], "the suite decides that"),
        (["--suite", "pair", "--temperature", "0"], "the suite decides that"),
        (["--env", "guess", "--data", "a=b"], "names the data of a suite"),
        (["--env", "guess", "--policy", "silent", "--policy", "silent"], "named twice"),
        (["--suite", "no-such-suite"], "there is no suite 'no-such-suite'"),
        (["--rescore", __file__, "--policy", "silent"], "plays what was recorded"),
        (["--env", "guess", "--trust-file"], "it is for --rescore"),
        ([], "name an environment"),
    ],
)
def test_options_that_do_not_go_together_are_refused_with_the_reason(options: list[str], message: str):
    result = CliRunner().invoke(app, ["eval", *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_several_policies_play_one_environment_and_are_compared_on_the_same_tasks(tmp_path: Path):
    command = ["eval", "--env", "guess", "-n", "6", "--set", "max_turns=20", "--out", str(tmp_path / "out")]
    policies = ["--policy", "silent", "--policy", "scripted"]
    shown = CliRunner().invoke(app, [*command, *policies])
    assert shown.exit_code == 0, shown.output
    for part in ("success on guess-v0", "silent", "100.0 %", "compared with silent", "+100.0"):
        assert part in shown.output
    told = json.loads(CliRunner().invoke(app, [*command, *policies, "--json"]).stdout)
    assert [(row["policy"], row["summary"]["overall"]["success"]) for row in told["results"]] == [
        ("silent", 0.0),
        ("scripted", 1.0),
    ]
    [difference] = told["differences"]
    assert (difference["a"]["policy"], difference["b"]["policy"]) == ("silent", "scripted")
    assert (difference["overall"]["won"], difference["overall"]["lost"]) == (6, 0)
    files = (tmp_path / "out/trajectories").glob("*.jsonl")
    assert sorted(len(list(read_jsonl(path))) for path in files) == [6, 6], "nothing was played twice"


def test_a_folder_of_one_environment_takes_another_policy_but_no_other_arguments(tmp_path: Path):
    command = ["eval", "--env", "guess", "-n", "2", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, [*command, "--policy", "silent", "--policy", "scripted"]).exit_code == 0
    assert CliRunner().invoke(app, [*command, "--policy", "random"]).exit_code == 0
    assert {row["policy"] for row in read_results(tmp_path)["results"]} == {"silent", "scripted", "random"}
    assert CliRunner().invoke(app, ["compare", f"{tmp_path}@silent", f"{tmp_path}@random"]).exit_code == 0
    for change in (["--set", "max_turns=20"], ["--tasks", "train"], ["--seed", "1"], ["-k", "2"]):
        result = CliRunner().invoke(app, [*command, *change, "--policy", "random"])
        assert (result.exit_code, "choose another folder" in result.output) == (2, True), result.output


def test_several_policies_without_a_folder_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    result = CliRunner().invoke(app, ["eval", "--env", "guess", "-n", "2", "--policy", "silent", "--policy", "random"])
    assert result.exit_code == 0, result.output
    assert not list(tmp_path.iterdir())


def test_policies_on_a_suite_are_compared_over_all_entries(suite: Suite, tmp_path: Path):
    played = SuitesRequest([suite], ["silent", "no_such_module:policy", "scripted"], out=tmp_path / "out")
    [difference] = run_suites(played).differences
    assert (difference.b.policy, difference.overall.success.tasks) == ("scripted", 6)


def test_weights_are_loaded_once_and_a_tiny_model_once_for_each_environment(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    loaded: list[tuple[str, str]] = []

    def load(name: str, *, env_id: str, **options: Any) -> SilentPolicy:
        loaded.append((name, env_id))
        return SilentPolicy()

    monkeypatch.setattr(suite_runs, "load_policy", load)
    pool = suite_runs._Policies()
    for name in ("smollm2", "tiny"):
        for entry in (*suite.entries, *suite.entries):
            pool.load(name, env_id=entry.factory.env_id, env_kwargs={}, dialect="compact")
    envs = [entry.factory.env_id for entry in suite.entries]
    assert loaded == [("smollm2", envs[0]), *(("tiny", env_id) for env_id in envs)]
