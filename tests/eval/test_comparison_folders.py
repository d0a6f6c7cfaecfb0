from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.cli.suite_runs import SuitesRequest, run_suites
from agentgym.eval.comparison.runs import Source, check_suites
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.pinning import pin_tasks
from tests.rows import each_row


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "pair.yaml"
    path.write_text("name: pair\nversion: 1\nentries: [{env: guess}, {env: errand}]\n")
    for name in ("guess", "errand"):
        pin_tasks(path, name, "test", 3)
    return path


def results(suite: Path, folder: Path, *policies: str) -> Path:
    run_suites(SuitesRequest([load_suite(suite)], policies, out=folder))
    return folder


def test_policies_are_compared_over_all_entries_of_a_suite(suite: Path, tmp_path: Path):
    folder = results(suite, tmp_path / "out", "silent", "scripted")
    result = CliRunner().invoke(app, ["compare", f"{folder}@silent", f"{folder}@scripted", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert "silent" in result.output
    assert sum(data["overall"][verdict] for verdict in ("won", "lost", "tied")) == 6
    assert len(Source(f"{folder}@scripted").run().tasks) == 6


def test_an_ambiguous_or_unknown_policy_is_refused_with_the_choices(suite: Path, tmp_path: Path):
    folder = results(suite, tmp_path / "out", "scripted", "silent")
    with pytest.raises(UsageError, match=r"2 policies; name one: .*@scripted or .*@silent"):
        Source(str(folder)).run()
    with pytest.raises(UsageError, match="there is no policy 'script'"):
        Source(f"{folder}@script").run()


def test_results_on_different_versions_of_a_suite_are_not_compared(suite: Path, tmp_path: Path):
    old = results(suite, tmp_path / "old", "scripted")
    pin_tasks(suite, "guess", "train", 3)
    new = results(suite, tmp_path / "new", "scripted")
    with pytest.raises(UsageError, match="versions 1 and 2"):
        check_suites(Source(str(old)), Source(str(new)))
    refused = CliRunner().invoke(app, ["compare", str(old), str(new)])
    assert refused.exit_code == 2
    assert "versions 1 and 2" in refused.output


def test_entries_of_the_same_environment_are_compared_each_on_its_own(tmp_path: Path):
    path = tmp_path / "twice.yaml"
    entries = "[{env: guess, name: short, arguments: {max_turns: 1}}, {env: guess, name: long}]"
    path.write_text(f"name: twice\nversion: 1\nentries: {entries}\n")
    for name in ("short", "long"):
        pin_tasks(path, name, "test", 3)
    folder = results(path, tmp_path / "out", "silent", "scripted")
    result = CliRunner().invoke(app, ["compare", f"{folder}@silent", f"{folder}@scripted", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["overall"]["success"]["tasks"] == 6
    won = {env: part["won"] for env, part in data["by_environment"].items()}
    assert won == {"agentgym/guess-v0 (short)": 0, "agentgym/guess-v0 (long)": 3}


@each_row(
    "content", [None, "[]", '{"schema": 2}', '{"schema": 1, "suites": [], "seed": 0, "settings": {}, "results": [5]}']
)
def test_a_folder_without_valid_results_is_refused(content: str | None, tmp_path: Path):
    if content is not None:
        (tmp_path / "results.json").write_text(content, encoding="utf-8")
    result = CliRunner().invoke(app, ["compare", str(tmp_path), str(tmp_path)])
    assert result.exit_code == 2
    assert "Error: " in result.output
