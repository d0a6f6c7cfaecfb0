from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym import __version__
from agentgym.cli import app
from agentgym.commands.options import choose_tasks
from agentgym.env import Env
from agentgym.envs.guess import GuessEnv
from agentgym.errors import InfrastructureError, UsageError
from agentgym.making import make_env
from agentgym.policy import RandomPolicy, ScriptedPolicy
from agentgym.policy_loader import has_weights, load_policy
from agentgym.task import read_manifest
from agentgym.trajectory import read_jsonl, write_jsonl

COMMANDS = ("list", "new", "check", "index", "tasks", "play", "eval", "train", "show", "replay")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=typed)


def ok(*arguments: str, typed: str | None = None) -> str:
    result = run(*arguments, typed=typed)
    assert result.exit_code == 0, result.output
    return result.stdout


def error(*arguments: str) -> str:
    """Run what must be refused; return the one line that says why."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line


# The commands.


def test_help_names_every_command():
    text = ok("--help")
    assert all(f" {command} " in text for command in COMMANDS)


def test_the_version_is_the_package_s():
    assert ok("--version").strip() == f"agentgym {__version__}"


@pytest.mark.real
def test_help_and_errors_load_nothing_heavy():
    code = (
        "import sys; from agentgym.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'gymnasium', 'duckdb', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.real
def test_python_m_agentgym_is_the_command():
    done = subprocess.run([sys.executable, "-m", "agentgym", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == f"agentgym {__version__}"


def test_list_shows_environments_with_their_first_line():
    text = ok("list")
    assert "agentgym/guess-v0" in text
    assert "Find a hidden number" in text


def test_tasks_are_shown_without_their_gold_and_written_to_a_manifest():
    shown = ok("tasks", "guess", "--split", "train", "-n", "3")
    assert shown.count("guess/train/") == 3
    assert "gold" not in shown
    ok("tasks", "guess", "-n", "4", "--out", "m.jsonl")
    manifest = read_manifest(Path("m.jsonl"))
    assert [manifest.get("test", i) for i in range(4)] == [GuessEnv.default_tasks().get("test", i) for i in range(4)]


def test_show_prints_the_gold_if_asked():
    ok("eval", "--env", "guess", "-n", "1", "--out", "t.jsonl")
    assert "gold" not in ok("show", "t.jsonl", "--index", "0")
    assert re.search(r"gold\s+number \d+", ok("show", "t.jsonl", "--index", "0", "--gold"))


def test_eval_prints_a_table_keeps_trajectories_and_continues():
    assert "100.0 %" in ok("eval", "--env", "guess", "--limit", "5", "-k", "2", "--out", "t.jsonl")
    before = Path("t.jsonl").read_text()
    assert len(before.splitlines()) == 10
    ok("eval", "--env", "guess", "--limit", "5", "-k", "2", "--out", "t.jsonl")
    assert Path("t.jsonl").read_text() == before


def test_eval_exits_with_1_and_says_why_if_an_episode_failed():
    Path("flaky_env.py").write_text(
        "from agentgym.envs.guess import GuessEnv\n"
        "class Flaky(GuessEnv):\n"
        "    def start(self, task):\n"
        "        if task.id.endswith('/1'):\n"
        "            raise OSError('disk on fire')\n"
        "        return super().start(task)\n"
    )
    try:
        for more in ([], ["--json"]):
            result = run("eval", "--env", "flaky_env:Flaky", "--limit", "3", "--out", "t.jsonl", *more)
            assert result.exit_code == 1, result.output
            assert "disk on fire" in result.stdout
        assert json.loads(result.stdout)["errors"].popitem()[1] == 1
        ok("eval", "--env", "guess", "--policy", "silent", "--limit", "3")  # a policy that solves nothing is no failure
    finally:
        sys.modules.pop("flaky_env", None)


def test_eval_does_not_write_over_the_tasks_it_reads():
    ok("tasks", "guess", "-n", "3", "--out", "m.jsonl")
    before = Path("m.jsonl").read_text()
    assert "it is the input file" in error("eval", "--env", "guess", "--tasks", "m.jsonl", "--out", "m.jsonl")
    assert "it is the input file" in error("tasks", "guess", "--split", "m.jsonl", "--out", "m.jsonl")
    assert Path("m.jsonl").read_text() == before


def test_eval_gives_numbers_to_programs():
    summary = json.loads(ok("eval", "--env", "guess", "--policy", "silent", "--limit", "3", "--json"))
    assert summary["overall"]["success"] == 0.0
    assert summary["endings"] == {"format_errors": 3}


def test_eval_takes_manifests_settings_and_dialects():
    ok("tasks", "guess", "-n", "6", "--split", "train", "--out", "m.jsonl")
    ok("eval", "--env", "guess", "--tasks", "m.jsonl", "--limit", "4", "--set", "max-turns=2", "--set", "scheme=d_ra",
       "--dialect", "tags", "--out", "t.jsonl")  # fmt: skip
    found = list(read_jsonl(Path("t.jsonl")))
    assert {t.split for t in found} == {"train"}
    assert len(found) == 4
    assert found[0].env_kwargs == {"max_turns": 2, "scheme": "d_ra", "dialect": "tags"}
    assert max(len(t.turns) for t in found) <= 2


def test_show_lists_and_shows():
    ok("eval", "--env", "guess", "--policy", "random", "--limit", "4", "--out", "t.jsonl")
    ok("eval", "--env", "guess", "--limit", "4", "--out", "s.jsonl")
    listed = ok("show", "t.jsonl")
    assert listed.count("guess/test/") == 4
    shown = ok("show", "t.jsonl", "--index", "0")
    assert "turn 1" in shown
    assert "policy       random" in shown
    assert "guess/test/2#0" in ok("show", "s.jsonl", "--task", "guess/test/2")
    assert ok("show", "s.jsonl", "--successes").count("✓ solved") == 4


def test_replay_agrees_and_finds_what_was_planted():
    ok("eval", "--env", "guess", "--policy", "random", "--limit", "3", "--out", "t.jsonl")
    assert "3 of 3 trajectories came out as recorded" in ok("replay", "t.jsonl")
    found = list(read_jsonl(Path("t.jsonl")))
    found[1].turns[0].observation[0]["content"] = "It is blue."
    write_jsonl(Path("t.jsonl"), found)
    result = run("replay", "t.jsonl")
    assert result.exit_code == 1
    assert "turn 1: observation was" in result.stdout
    assert "2 of 3" in result.stdout


def test_replay_takes_the_manifest_that_was_played():
    ok("tasks", "guess", "-n", "2", "--out", "m.jsonl")
    lines = [json.loads(line) | {"id": f"mine/{i}"} for i, line in enumerate(Path("m.jsonl").read_text().splitlines())]
    Path("m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ok("eval", "--env", "guess", "--tasks", "m.jsonl", "--out", "t.jsonl")
    assert "cannot be replayed: no task 'mine/" in run("replay", "t.jsonl").stdout
    assert "2 of 2" in ok("replay", "t.jsonl", "--tasks", "m.jsonl")


def test_play_is_a_session():
    text = ok("play", "guess", "--task", "guess/train/0", typed="guess 1\n:quit\n")
    assert "guess/train/0" in text
    assert "turn 1 of 12" in text
    assert "gave up" in text


def test_new_then_check_then_eval_by_class_path_where_the_command_is_given():
    ok("new", "toy-shop")
    try:
        assert "passed" in ok("check", "toy_shop:ToyShopEnv", "--only", "makes", "--only", "solution-solves")
        assert "100.0 %" in ok("eval", "--env", "toy_shop:ToyShopEnv", "--limit", "3")
    finally:
        sys.modules.pop("toy_shop", None)


def test_a_broken_guarantee_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch):
    class Forgetful(GuessEnv):
        solution = Env.solution

    monkeypatch.setattr("agentgym.envs.guess.GuessEnv", Forgetful)
    result = run("check", "agentgym.envs.guess:GuessEnv", "--only", "solution-solves")
    assert result.exit_code == 1, result.output


# One clear line.


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check", "gues"], "did you mean 'guess'?"),
        (["check", "nowhere.at:All"], "no module 'nowhere.at'"),
        (["check", "guess", "--only", "plys"], "'plays'"),
        (["check", "guess", "--set", "max_turn=3"], "did you mean 'max_turns'?"),
        (["eval", "--env", "guess", "--set", "scheme=d-ra"], "did you mean 'd_ra'?"),
        (["check", "guess", "--set", "max_turns"], "--set takes KEY=VALUE, not 'max_turns'"),
        (["tasks", "guess", "--split", "tset"], "unknown split 'tset'"),
        (["tasks", "guess", "--out", "nowhere/m.jsonl"], "no folder 'nowhere'"),
        (["play", "guess", "--task", "guess/mars/1"], "no task 'guess/mars/1'"),
        (["eval", "--env", "guess", "--policy", "scriptd"], "did you mean 'scripted'?"),
        (["eval", "--env", "guess", "--policy", "nowhere.at:all"], "no module 'nowhere.at'"),
        (["eval", "--env", "guess", "--policy", "json:nothing"], "'json:nothing' does not name a policy factory"),
        (["eval", "--env", "guess", "--policy", "builtins:dict"], "returned a dict"),
        (["eval", "--env", "guess", "--tasks", "none.jsonl"], "no manifest 'none.jsonl'"),
        (["eval", "--env", "guess", "--dialect", "herms"], "did you mean 'hermes'?"),
        (["eval", "--env", "guess", "--out", "nowhere/t.jsonl"], "a folder that exists"),
        (["eval", "--env", "guess", "--out", "/dev/full"], "cannot write to '/dev/full'"),
        (["tasks", "guess", "--out", "/dev/full"], "cannot write to '/dev/full'"),
        (["tasks", "build", "swe", "--from", ".", "--out", "/dev/null/x"], "cannot write to the folder"),
        (["new", "2fast"], "'2fast' cannot be a module's name; use a letter, then"),
        (["eval", "--env", "receipt"], "a class of your own is named module:Class"),
        (["check", "agentgym.interop.gym:GymEnv"], "cannot be made without id: pass --set id=VALUE"),
        (["eval", "--env", "guess", "--policy", "vllm:mine"], "vLLM finds no model 'mine': give a folder"),
        (["index", "search", "nowhere", "words"], "build one with: agentgym index build"),
    ],
)
def test_wrong_usage_is_told_in_one_line(arguments: list[str], told: str):
    assert told in error(*arguments)


def test_files_that_are_no_trajectories_are_reported():
    Path("bad.jsonl").write_text("{}\n\n")
    assert "bad.jsonl:1:" in error("show", "bad.jsonl")
    Path("empty.jsonl").write_text("")
    for command in ("show", "replay"):
        assert "'empty.jsonl' contains no trajectory" in error(command, "empty.jsonl")
    assert run("show", "nothing.jsonl").exit_code == 2


def test_an_index_out_of_range_is_reported():
    ok("eval", "--env", "guess", "--limit", "2", "--out", "t.jsonl")
    assert "--index must be from 0 to 1" in error("show", "t.jsonl", "--index", "2")


@pytest.mark.parametrize(("raised", "code"), [(InfrastructureError("no disk"), 2), (KeyboardInterrupt(), 130)])
def test_an_error_that_breaks_a_command_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
):
    def broken(**kwargs: Any) -> None:
        raise raised

    monkeypatch.setattr("agentgym.commands.listing.environments_table", broken)
    result = run("list")
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_a_missing_extra_names_the_command_to_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'agentgym-suite[train]'" in error("train", "--env", "guess")
    assert "pip install 'agentgym-suite[train]'" in error("eval", "--env", "guess", "--policy", "tiny")


@pytest.mark.real
@pytest.mark.parametrize("asked", [["--help"], ["-h"], ["--env", "guess", "--show-config"]])
def test_options_of_training_are_told_without_its_packages(asked: list[str]):
    code = "import sys; sys.modules['torch'] = None; from agentgym.cli import main; main()"
    told = subprocess.run([sys.executable, "-c", code, "train", *asked], capture_output=True, text=True, check=True)
    assert "agentgym train --env sql" in told.stdout or "env: guess" in told.stdout


@pytest.mark.parametrize("command", [["serve"], ["index"], ["doctor"], ["tasks", "build", "swe"]])
def test_help_of_the_other_rooms_commands_has_only_their_own_options(command: list[str]):
    assert "--install-completion" not in ok(*command, "--help")


def test_train_gets_its_arguments_as_they_were_typed(monkeypatch: pytest.MonkeyPatch):
    given: list[list[str]] = []
    monkeypatch.setitem(sys.modules, "agentgym.trainers.command", SimpleNamespace(main=given.append))
    ok("train", "--env", "sql", "--credit", "gated", "--help")
    assert given == [["--env", "sql", "--credit", "gated", "--help"]]


# What the commands are made of.


def test_an_endless_split_is_limited_and_a_manifest_is_not(tmp_path: Path):
    env = GuessEnv()
    assert len(choose_tasks(env, "train")) == 100
    assert len(choose_tasks(env, "train", 130)) == 130
    ok("tasks", "guess", "-n", "120", "--out", "m.jsonl")
    assert len(choose_tasks(env, "m.jsonl")) == 120


def test_an_authors_own_type_error_is_not_taken_for_a_wrong_argument(monkeypatch: pytest.MonkeyPatch):
    class Broken(GuessEnv):
        def __init__(self) -> None:
            raise TypeError("mine")

    monkeypatch.setattr("agentgym.envs.guess.GuessEnv", Broken)
    with pytest.raises(UsageError, match=r"cannot be made: TypeError: mine \(test_cli\.py, line"):
        make_env("agentgym.envs.guess:GuessEnv", {})


def test_policies_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def load(name: str) -> Any:
        return load_policy(name, env_id="guess", env_kwargs={})

    assert isinstance(load("scripted"), ScriptedPolicy)
    assert isinstance(load("random"), RandomPolicy)
    Path("my_policies.py").write_text(
        "from agentgym.policy import SilentPolicy\ndef quiet():\n    return SilentPolicy()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load("my_policies:quiet").name == "silent"
    sys.modules.pop("my_policies")
    with pytest.raises(UsageError, match="a folder with a transformers checkpoint"):
        load("no-such-folder")


def test_only_models_have_weights(tmp_path: Path):
    assert has_weights("tiny")
    assert has_weights(str(tmp_path))
    assert has_weights("Qwen/Qwen3-1.7B")
    assert not any(map(has_weights, ("scripted", "module:factory", "/no/such/folder", "./nowhere")))
