"""Files that environments take tasks from: how they are named, refused and told about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.cli import app
from agentgym.commands.listing import taking_files
from agentgym.commands.options import arguments_of
from agentgym.engine.authoring import EnvArguments
from agentgym.env import Env
from agentgym.envs.catalog import ON_FILES
from agentgym.envs.code.options import CodeArguments
from agentgym.envs.search.options import SearchArguments
from agentgym.envs.sql.options import SQLArguments
from agentgym.errors import UsageError
from agentgym.registry import class_of, make
from agentgym.task_files.declaring import STRICT, TaskFiles

TAKING = {"sql": "folder", "search": "folder", "code": "file", "web": "file", "swe": "file"}
GENERATED = {"swe": ("kind", "bugs")}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def files_of(env: str) -> TaskFiles:
    files = class_of(env).files
    assert files is not None
    return files


def test_the_sources_of_all_environments_are_listed_with_how_each_is_named():
    shown = run("tasks", "sources")
    assert shown.exit_code == 0, shown.output
    for env, argument in TAKING.items():
        assert f"agentgym/{env}-v0  --set {argument}=PATH" in shown.stdout
        for layout in files_of(env).layouts:
            assert layout.name in shown.stdout
            assert f"--set {layout.settings}" in shown.stdout
        for option in (*files_of(env).options, "strict"):
            assert f"--set {option}=…" in shown.stdout


def test_one_environment_is_asked_about_by_its_name():
    shown = run("tasks", "sources", "sql").stdout
    assert "Spider" in shown
    assert "MBPP" not in shown
    refused = run("tasks", "sources", "guess")
    assert refused.exit_code == 2
    assert all(f"agentgym/{env}-v0" in refused.stderr for env in TAKING)


@pytest.mark.parametrize("command", [("eval",), ("tasks",), ("tasks", "show"), ("play",), ("check",), ("train",)])
def test_the_help_of_every_command_that_takes_files_says_where_they_are_listed(command: tuple[str, ...]):
    assert "agentgym tasks sources" in " ".join(run(*command, "--help").stdout.replace("│", " ").split())


@pytest.mark.parametrize("env", TAKING)
def test_every_option_of_a_loader_is_an_argument_of_its_environment(env: str):
    files = files_of(env)
    for option in files.options:
        with pytest.raises(UsageError, match="there is no file or folder 'nowhere'"):
            make(env, **{files.argument: "nowhere", option: VALID.get(option, "auto")})


VALID: dict[str, Any] = {
    "unseen": 0.5,
    "keep_degenerate": True,
    "urls": {"shopping": "http://127.0.0.1:9"},
    "with_login": True,
    "engine": "sqlite",
}


@pytest.mark.parametrize("env", TAKING)
def test_what_chooses_generated_tasks_does_not_go_with_files(env: str):
    files = files_of(env)
    choice, value = GENERATED.get(env, ("difficulty", 1))
    with pytest.raises(UsageError, match=rf"tasks from {files.argument}=\.\.\. have no {choice} to choose"):
        make(env, **{files.argument: "nowhere", choice: value})


@pytest.mark.parametrize("env", TAKING)
def test_a_path_is_text(env: str):
    files = files_of(env)
    with pytest.raises(UsageError, match=f"{files.argument} must be the path of a file or folder, not 3"):
        make(env, **{files.argument: 3})


@pytest.mark.parametrize("env", ["search", "code"])
def test_an_option_of_files_without_a_file_is_refused(env: str):
    with pytest.raises(UsageError, match=rf"split_by=\.\.\. is for tasks from files; pass {TAKING[env]}=\.\.\. too"):
        make(env, split_by="hash")


def test_what_was_left_out_is_listed_with_its_reasons(tmp_path: Path):
    entry = {"question": "How many?", "answer": "#### 1"}
    lines = [entry, entry, {"question": "What?", "answer": None}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("tasks", "code", "--set", f"file={tmp_path}")
    shown = run(*words, "--left-out")
    assert shown.exit_code == 0, shown.output
    first, second, total = shown.stdout.splitlines()
    assert first.startswith(f"broken: {tmp_path / 'test.jsonl'}:3: no text under 'answer'")
    assert second == f"repeated: {tmp_path / 'test.jsonl'}:2: it repeats {tmp_path / 'test.jsonl'}:1"
    assert total == "2 entries are left out"
    strict = run(*words, "--strict")
    assert strict.exit_code == 2
    assert "test.jsonl:3: no text under 'answer'" in strict.stderr


def test_commands_take_the_split_that_there_is(tmp_path: Path):
    (tmp_path / "dev.jsonl").write_text(json.dumps({"question": "How many?", "answer": "#### 1"}))
    words = ("--set", f"file={tmp_path}", "--set", "solution_style=direct")
    shown = run("tasks", "code", *words)
    assert "gsm8k/dev/1" in shown.stdout
    evaluated = run("eval", "--env", "code", *words)
    assert evaluated.exit_code == 0, evaluated.output
    assert "There is no split 'test'; evaluating on 'validation'." in evaluated.stderr
    assert run("eval", "--env", "code", "--tasks", "test", *words).exit_code == 2


def test_the_environments_that_take_files_are_those_tested_here():
    names = {
        env_id.removeprefix("agentgym/").removesuffix("-v0") for env_id in taking_files() if env_id not in ON_FILES
    }
    assert names == set(TAKING)


@pytest.mark.parametrize(
    ("env", "arguments"), [("sql", SQLArguments), ("search", SearchArguments), ("code", CodeArguments)]
)
def test_the_types_of_the_choices_of_tasks_are_those_that_its_files_know(env: str, arguments: type):
    assert set(arguments.__annotations__) == files_of(env).arguments | set(EnvArguments.__annotations__)


def test_the_arguments_of_every_environment_are_those_that_env_takes():
    assert arguments_of(Env) - {"tasks"} == set(EnvArguments.__annotations__)


@pytest.mark.parametrize("env", TAKING)
def test_a_choice_of_tasks_that_is_none_counts_as_not_given(env: str):
    kind = class_of(env)
    nothing: dict[str, Any] = dict.fromkeys(files_of(env).arguments - {STRICT})
    assert type(kind(**nothing).tasks) is type(kind.default_tasks())


@pytest.mark.parametrize("env", ["sql", "search", "code"])
def test_a_misspelt_choice_of_tasks_is_told_apart_and_the_right_one_named(env: str):
    told = run("tasks", env, "--set", "task_sed=3")
    assert told.exit_code == 2
    assert "takes no argument 'task_sed'; did you mean 'task_seed'?" in told.stderr
