"""The output, files, errors and exit codes of `agentgym tasks list|show|stats|validate|pin|split`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.cli.app import app
from agentgym.core.task import Task, iterate, read_manifest, write_manifest
from agentgym.eval.suites import load_suite
from tests.rows import each_row
from tests.suite_cases import COUNTER, WRONG, counting


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.chdir(tmp_path)


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["tasks", *words])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def mine(tmp_path: Path) -> str:
    return counting(tmp_path / "mine.yaml", attempts=2).name


# list, show, stats.


def test_a_name_of_both_means_the_environment_without_suite_option():
    assert "guess/test/0" in run("guess", "-n", "1").stdout
    assert "sql/train/0" in run("sql", "-n", "1", "--split", "train").stdout
    assert "sql-unseen" in run("show", "sql", "--suite").stdout
    assert "email-inbox" in run("core").stdout
    assert "unknown suite 'guess'" in run("show", "guess", "--suite", code=2).stderr


@each_row("command", ["show", "stats", "validate", "pin"])
def test_an_unknown_name_is_refused_with_the_nearest_ones(command: str):
    error = run(command, "smok", code=2).stderr
    assert "unknown environment 'smok'" in error
    assert "Nor is there a suite 'smok'; did you mean 'smoke'?" in error


def test_a_suite_is_shown_with_the_settings_of_its_entries(mine: str):
    output = run("show", mine).stdout
    assert f"mine version 1  {load_suite(mine).content_hash[:12]}" in output
    assert ["counter", COUNTER, "3", "2", "success"] in [line.split() for line in output.splitlines()]
    assert "counter/test/2" in run("show", mine, "--entry", "counter").stdout
    run("show", mine, "--entry", "counter", "--out", "tasks.jsonl")
    assert read_manifest(Path("tasks.jsonl")).size("test") == 3


@each_row(
    ("words", "message"),
    [
        (("show", "mine.yaml", "--split", "test"), "are for environments"),
        (("validate", "mine.yaml", "--entry", "x"), "has no entry 'x'; it has: counter"),
        (("validate", "humaneval"), "needs data of your own"),
        (("pin", "core"), "is bundled; name the file of your own version: --out core.yaml"),
        (("pin", "guess"), "--out SUITE.yaml"),
        (("pin", "mine.yaml", "--limit", "3"), "--entry NAME"),
        (("stats", "guess", "--split", "tset"), "unknown split 'tset'"),
    ],
)
def test_options_that_do_not_apply_are_refused(mine: str, words: tuple[str, ...], message: str):
    assert message in " ".join(run(*words, code=2).stderr.split())


# validate.


def test_gold_that_its_grader_refuses_is_a_fault_with_the_ids():
    report = json.loads(run("validate", WRONG, "--split", "train", "-n", "3", "--json", code=1).stdout)
    [fault] = report["gold"]["train"]
    assert (fault["task_id"], fault["failed"], report["passed"]) == ("counter/train/1", False, False)
    assert "gold: train: counter/train/1: the solution got outcome 0" in run("validate", WRONG, code=1).stdout
    assert "the solution" not in run("validate", WRONG, "--split", "train", "-n", "3", "--no-gold").stdout


def test_a_repeated_problem_is_a_fault_only_across_splits(tmp_path: Path):
    report = json.loads(run("validate", COUNTER, "-n", "6", "--json", code=1).stdout)
    assert {tuple(pair["places"]) for pair in report["pairs"] if pair["fault"]} == {("train", "test")}
    assert (
        "the same: counter/train/0 (train) and counter/test/0 (test) (100 %)" in run("validate", COUNTER, code=1).stdout
    )
    output = run("validate", COUNTER, "--split", "train", "-n", "6").stdout
    assert "duplicates: 0 across; 1 more pairs within one split or entry" in output


# pin.


def test_a_bundled_suite_is_copied_to_be_changed():
    assert "version 1" in run("pin", "smoke", "--out", "mine.yaml", "--entry", "guess", "-n", "2").stdout
    assert len(load_suite("mine.yaml").entry("guess").pins) == 2
    copy = load_suite("mine.yaml")
    assert (copy.name, copy.version, len(load_suite("smoke").entry("guess").pins)) == ("mine", 1, 6)
    run("pin", "mine.yaml", "--entry", "guess", "-n", "3")
    assert load_suite("mine.yaml").version == 2
    assert "exists" in run("pin", "smoke", "--out", "mine.yaml", code=2).stderr


# split.


def manifest(name: str, tasks: list[Task]) -> str:
    write_manifest(Path(name), tasks)
    return name


def problem(name: str, number: int, **fields: Any) -> Task:
    return Task(name, "all", " ".join(f"word{number}x{n}" for n in range(20)), **fields)


def test_tasks_of_several_files_are_divided_without_a_common_problem():
    first = manifest("one.jsonl", [problem(f"a{n}", n) for n in range(30)])
    other = manifest("other.jsonl", [problem(f"b{n}", n) for n in range(30)])
    output = run("split", first, other, first, "--out", "made", "--test", "0.4").stdout
    files = {split: read_manifest(Path("made") / f"{split}.jsonl") for split in ("train", "test")}
    divided = {split: list(iterate(source, split)) for split, source in files.items()}
    prompts = {split: {task.prompt for task in tasks} for split, tasks in divided.items()}
    assert prompts["train"].isdisjoint(prompts["test"])
    assert sum(map(len, divided.values())) == 60
    assert f"Wrote {len(divided['train'])} tasks to made/train.jsonl" in output
