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

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.cli import suite_runs
from agentgym.cli.app import app
from agentgym.cli.evaluate import _preparation
from agentgym.cli.suite_runs import SuitesReport, SuitesRequest, print_report, run_suites
from agentgym.core.policy import Player, Seat, SilentPolicy
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.results.folder import ResultsFolder, read_results
from agentgym.eval.suites import Suite, load_suite
from agentgym.eval.suites.pinning import add_entry, pin_tasks
from tests.rows import each_row
from tests.suite_cases import LINES

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


@each_row("change", [{"seed": 1}, {"limit": 2}, {"attempts": 3}])
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
    [("results.json", '{"schema": 1}'), ("results.json", "[]"), ("run.json", '{"schema": 1}'), ("run.json", "x")],
)
def test_a_folder_that_cannot_be_read_is_refused_and_left_as_it_is(
    suite: Suite, tmp_path: Path, name: str, content: str
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(UsageError, match=name):
        run_suites(SuitesRequest([suite], ["silent"], out=tmp_path / "out"))
    assert (tmp_path / "out" / name).read_text() == content


def test_rows_of_another_process_are_kept(suite: Suite, tmp_path: Path):
    request = SuitesRequest([suite], ["silent"], out=tmp_path / "out")
    waiting = ResultsFolder(tmp_path / "out", request.plan)
    run_suites(request)
    rows = read_results(tmp_path / "out")["results"]
    with waiting.running(["agentgym"]):
        assert read_results(tmp_path / "out")["results"] == rows != []


class Moving:
    """An evaluation on a suite over a file of lines that moves between folders."""

    def __init__(self, folder: Path):
        self._folder, self._suite = folder, folder / "lines.yaml"
        self.out = folder / "out"
        entry = {"env": LINES, "name": "lines", "attempts": 2, "data": {"file": "words"}}
        add_entry(self._suite, entry, None, 3, {"words": str(self.put("here"))})

    def put(self, place: str, lines: str = "one\ntwo\nthree\n") -> Path:
        (self._folder / place).mkdir(exist_ok=True)
        path = self._folder / place / "lines.txt"
        path.write_text(lines)
        return path

    def play(self, data: Path, out: Path | None = None) -> SuitesReport:
        suite = load_suite(self._suite, {"words": data})
        return run_suites(SuitesRequest([suite], ["scripted"], out=out or self.out))

    @property
    def file(self) -> Path:
        [file] = (self.out / "trajectories").glob("*.jsonl")
        return file


def test_a_folder_is_continued_after_its_data_has_moved(tmp_path: Path):
    moving = Moving(tmp_path)
    moving.play(moving.put("here"))
    recorded = moving.file.read_text().splitlines(keepends=True)
    moving.file.write_text("".join(recorded[:4]))
    assert not moving.play(moving.put("there")).broken
    continued = moving.file.read_text().splitlines(keepends=True)
    assert continued[:4] == recorded[:4]
    assert sorted(json.loads(line)["id"] for line in continued) == sorted(json.loads(line)["id"] for line in recorded)
    whole = tmp_path / "whole"
    moving.play(moving.put("elsewhere"), whole)
    assert (moving.out / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    result_json = CliRunner().invoke(app, ["compare", str(moving.out), str(whole), "--json"])
    assert result_json.exit_code == 0, result_json.output
    assert json.loads(result_json.output)["overall"]["tied"] == 3


def test_a_folder_is_not_continued_with_other_data(tmp_path: Path):
    moving = Moving(tmp_path)
    moving.play(moving.put("here"))
    before = moving.file.read_bytes()
    report = moving.play(moving.put("there", "one\ntwo\nfour\n"))
    [pair] = report.pairs
    assert report.broken
    assert "entry 'lines': 1 of 3 tasks differ from their pins; the first: 'lines/2'" in (pair.error or "")
    assert moving.file.read_bytes() == before


def test_an_error_of_one_policy_does_not_stop_the_others(suite: Suite, tmp_path: Path):
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
    result_json = CliRunner().invoke(app, [*command, "--policy", "scripted", "--policy", "silent", "--json"])
    assert [row["policy"] for row in json.loads(result_json.stdout)["results"]] == ["scripted", "silent"] * 2


def test_the_log_has_each_result_and_the_preparation_of_models(file: Path):
    log_text = (
        CliRunner().invoke(app, ["eval", "--suite", str(file), "--policy", "scripted", "--policy", "silent"]).stderr
    )
    lines = [re.sub(r"[\d.]+ %  \S+", "SHARE", line) for line in log_text.splitlines()]
    patterns = [rf"{env}: {policy}: SHARE  \(3 tasks, \d+ s\)" for env in ("guess", "errand") for policy in PLAYED]
    assert len(lines) == len(patterns)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, lines, strict=True)), lines
    log = StringIO()
    tell = _preparation(Progress(console=Console(file=log), disable=True), "guess: tiny")
    for done in range(3):
        tell("warm start", done, 300)
    assert log.getvalue() == "guess: tiny: warm start …\n"


@each_row(
    ("options", "message"),
    [
        (["--suite", "pair", "--env", "guess"], "cannot be used together"),
        (["--suite", "pair", "--set", "max_turns=3"], "the suite decides that"),
        (["--suite", "pair", "--temperature", "0.5"], "the suite decides that"),
        (["--suite", "pair", "--temperature", "0"], "the suite decides that"),
        (["--env", "guess", "--data", "a=b"], "names the data of a suite"),
        (["--env", "guess", "--policy", "silent", "--policy", "silent"], "named twice"),
        (["--suite", "no-such-suite"], "unknown suite 'no-such-suite'"),
        (["--suite", "smoke", "--suite", "smoke"], "two suites are called 'smoke'"),
        (["--rescore", __file__, "--policy", "silent"], "plays what was recorded"),
        (["--env", "guess", "--trust-file"], "it is for --rescore"),
        ([], "name an environment"),
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


def test_a_folder_of_one_environment_takes_another_policy_but_no_other_arguments(tmp_path: Path):
    command = ["eval", "--env", "guess", "-n", "2", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, [*command, "--policy", "silent", "--policy", "scripted"]).exit_code == 0
    assert CliRunner().invoke(app, [*command, "--policy", "random"]).exit_code == 0
    results = read_results(tmp_path)
    assert {row["policy"] for row in results["results"]} == {"silent", "scripted", "random"}
    assert "guess/test/0" not in json.dumps(results["settings"]), "a hash stands for the tasks"
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


def test_a_policy_that_is_not_compared_is_named_with_the_reason(suite: Suite, tmp_path: Path):
    policies = ["silent", "no_such_module:policy", "tests.eval.test_suite_runs:Unreachable", "scripted"]
    report = run_suites(SuitesRequest([suite], policies, out=tmp_path / "out"))
    assert [(row.b.policy, row.overall.success.tasks) for row in report.differences] == [("scripted", 6)]
    assert report.not_compared == {
        "no_such_module:policy": "guess could not be played",
        "tests.eval.test_suite_runs:Unreachable": "no episode on guess came to its end",
    }
    assert report.to_dict()["not_compared"] == report.not_compared
    text = printed(report)
    assert "not compared: tests.eval.test_suite_runs:Unreachable: no episode on guess came to its end" in text


def test_a_missing_baseline_is_reported_with_the_reason(suite: Suite, tmp_path: Path):
    policies = ["tests.eval.test_suite_runs:Unreachable", "silent", "scripted"]
    report = run_suites(SuitesRequest([suite], policies, out=tmp_path / "out"))
    assert report.differences == []
    text = printed(report)
    assert f"nothing was compared with {policies[0]}: no episode on guess came to its end" in text


def printed(report: SuitesReport) -> str:
    output = StringIO()
    print_report(report, Console(file=output, width=200))
    return output.getvalue()


class Unreachable(SilentPolicy):
    """A model whose endpoint is down."""

    name = "unreachable"

    def player(self, seat: Seat) -> Player:
        raise InfrastructureError("the endpoint is gone")


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
