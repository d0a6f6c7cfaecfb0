"""The command line: results, exit codes, and errors in one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from agentgym.base.errors import InfrastructureError
from agentgym.base.loading import load_named
from agentgym.cli.app import app
from agentgym.cli.components import LazyCommand, load_command
from agentgym.cli.environments import by_class, first_line
from agentgym.core.task import read_manifest
from agentgym.core.trajectory import read_jsonl, write_jsonl
from agentgym.envs.guess import GuessEnv
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")


@pytest.mark.real
def test_start_up_files_of_the_working_directory_do_not_run(tmp_path: Path):
    ran = tmp_path / "ran"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(ran)!r}, 'a').write('ran')")
    (tmp_path / "mine.py").write_text("from agentgym.envs.sql import SQLEnv\nclass Mine(SQLEnv):\n    'Mine.'\n")
    command = [sys.executable, "-m", "agentgym", "eval", "--env", "mine:Mine", "--workers", "processes", "-n", "2"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, ran.exists()) == (0, False), done.stderr


def test_an_evaluation_shows_the_best_constant_as_its_baseline():
    words = ["eval", "--env", "guess", "-n", "20"]
    assert re.search(r"Baseline, the best single action: guess\(number=\d+\) solves \d+ of 20 tasks", ok(*words))
    baseline = json.loads(ok(*words, "--json"))["baseline"]
    assert baseline["tasks"] == 20
    assert baseline["action"].startswith("guess(number=")
    assert json.loads(ok("eval", "--env", "guess", "-n", "2", "--json"))["baseline"] is None


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=typed)


def ok(*arguments: str, typed: str | None = None) -> str:
    result = run(*arguments, typed=typed)
    assert result.exit_code == 0, result.output
    return result.stdout


def error(*arguments: str) -> str:
    """Run a command that is refused; return its error, a single line."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line


# The commands.


@pytest.mark.real
def test_help_imports_no_heavy_packages():
    code = (
        "import sys; from agentgym.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'gymnasium', 'duckdb', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr


def test_tasks_are_printed_without_gold_and_written_to_a_manifest():
    text = ok("tasks", "guess", "--split", "train", "-n", "3")
    assert (text.count("guess/train/"), text.count("gold")) == (3, 0)
    ok("tasks", "guess", "-n", "4", "--out", "m.jsonl")
    manifest = read_manifest(Path("m.jsonl"))
    assert [manifest.get("test", i) for i in range(4)] == [GuessEnv.default_tasks().get("test", i) for i in range(4)]


@pytest.mark.parametrize(("policy", "is_default"), [((), True), (("--policy", "scripted"), False)])
def test_eval_without_a_policy_says_that_the_solution_plays(policy: tuple[str, ...], is_default: bool):
    result = run("eval", "--env", "guess", "-n", "1", *policy)
    assert ("the environment's own solution" in result.stderr) == is_default


def options_in(command: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command and of those below it, with the place of each."""
    if isinstance(command, LazyCommand):
        command = load_command(command.name or "", command.path)
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from options_in(command.get_command(None, name), f"{place} {name}")
    yield from ((place, parameter) for parameter in command.params)


def test_a_flag_means_the_same_in_every_command():
    options = list(options_in(get_command(app), "agentgym"))
    limits = {place: option.opts for place, option in options if "-n" in option.opts}
    assert len(limits) >= 7
    assert {place: names for place, names in limits.items() if "--limit" not in names} == {}
    tasks = {place: option for place, option in options if "--tasks" in option.opts}
    assert {place for place, option in tasks.items() if "manifest" not in (option.help or "")} == set()


def test_list_describes_environments_and_names_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    Path("fine.py").write_text('class Fine:\n    """A fine place.\n\n    More.\n    """\n')
    Path("again.py").write_text("from fine import Fine as Better\n")
    Path("all_of_it.py").write_text("from other import *\n")
    Path("other.py").write_text(Path("fine.py").read_text())
    monkeypatch.syspath_prepend(".")
    paths = {
        "a/again-v0": "again:Better",
        "a/all-v0": "all_of_it:Fine",
        "a/gone-v0": "gone:Gone",
        "a/none-v0": "all_of_it:None_",
        **{f"a/{n}-v0": "fine:Fine" for n in range(4)},
    }
    monkeypatch.setattr(
        "agentgym.cli.environments.declared_environments", lambda: {name: (path, {}) for name, path in paths.items()}
    )
    rows = [line.split(maxsplit=1) for line in ok("list").splitlines()[1:]]
    assert [row[0] for row in rows] == ["a/*", "a/again-v0", "a/all-v0", "a/gone-v0", "a/none-v0"]
    expected = (*["A fine place."] * 3, "cannot be read: there is no module", "cannot be read: 'all_of_it:None_'")
    for (_, about), words in zip(rows, expected, strict=True):
        assert words in about
    assert not {"fine", "again"} & sys.modules.keys(), "not imported without need"


def test_bundled_environments_are_described_without_being_imported():
    for _, path in by_class():
        assert load_named(path, "a class").__doc__.startswith(first_line(*path.split(":")))


def test_show_prints_gold_only_with_its_option():
    ok("eval", "--env", "guess", "-n", "1", "--out", "t.jsonl")
    assert "gold" not in ok("show", "t.jsonl", "--index", "0")
    assert re.search(r"gold\s+number \d+", ok("show", "t.jsonl", "--index", "0", "--gold"))


def test_eval_exits_with_1_and_prints_the_error_of_a_failed_episode():
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
        ok("eval", "--env", "guess", "--policy", "silent", "--limit", "3")  # solving nothing is not a failure
    finally:
        sys.modules.pop("flaky_env", None)


def test_output_does_not_overwrite_the_manifest():
    ok("tasks", "guess", "-n", "3", "--out", "m.jsonl")
    before = Path("m.jsonl").read_text()
    for words in (["eval", "--env", "guess", "--tasks"], ["tasks", "guess", "--split"]):
        assert "cannot write to 'm.jsonl'" in error(*words, "m.jsonl", "--out", "m.jsonl")
    assert Path("m.jsonl").read_text() == before


def test_eval_accepts_manifests_settings_and_dialects():
    ok("tasks", "guess", "-n", "6", "--split", "train", "--out", "m.jsonl")
    ok("eval", "--env", "guess", "--tasks", "m.jsonl", "--limit", "4", "--set", "max-turns=2", "--set", "scheme=d_ra",
       "--dialect", "tags", "--out", "t.jsonl")  # fmt: skip
    trajectories = list(read_jsonl(Path("t.jsonl")))
    assert [t.split for t in trajectories] == ["train"] * 4
    assert trajectories[0].env_kwargs == {"max_turns": 2, "scheme": "d_ra", "dialect": "tags"}
    assert max(len(t.turns) for t in trajectories) <= 2


def test_replay_reports_a_changed_observation():
    ok("eval", "--env", "guess", "--policy", "random", "--limit", "3", "--out", "t.jsonl")
    assert "3 of 3 trajectories came out as recorded" in ok("replay", "t.jsonl")
    trajectories = list(read_jsonl(Path("t.jsonl")))
    trajectories[1].turns[0].observation[0]["content"] = "It is blue."
    write_jsonl(Path("t.jsonl"), trajectories)
    result = run("replay", "t.jsonl")
    assert result.exit_code == 1
    assert "turn 1: observation was" in result.stdout
    assert "2 of 3" in result.stdout


# Errors.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "gues"], "did you mean 'guess'?"),
        (["check", "guess", "--set", "max_turn=3"], "did you mean 'max_turns'?"),
        (["eval", "--env", "guess", "--set", "scheme=d-ra"], "did you mean 'd_ra'?"),
        (["tasks", "guess", "--split", "tset"], "unknown split 'tset'"),
        (["play", "guess", "--task", "guess/mars/1"], "no task 'guess/mars/1'"),
        (["eval", "--env", "guess", "--policy", "scriptd"], "did you mean 'scripted'?"),
        (["eval", "--env", "guess", "--policy", "no-such-folder"], "a folder with a transformers checkpoint"),
        (["eval", "--env", "guess", "--policy", "json:nothing"], "'json:nothing' does not name a policy factory"),
        (["eval", "--env", "guess", "--tasks", "none.jsonl"], "'none.jsonl' does not exist"),
        (["tasks", "guess", "--out", "/dev/full"], "cannot write to '/dev/full'"),
        (["eval", "--env", "receipt"], "a class of your own is named module:Class"),
        (["check", "agentgym.interop.envs.gym:GymEnv"], "cannot be made without id: pass --set id=VALUE"),
        (["eval", "--env", "guess", "--policy", "vllm:mine"], "vLLM finds no model 'mine': give a folder"),
        (["index", "search", "nowhere", "words"], "build one with: agentgym index build"),
    ],
)
def test_wrong_usage_is_reported_in_one_line(arguments: list[str], message: str):
    assert message in error(*arguments)


def test_invalid_trajectory_files_are_named():
    Path("bad.jsonl").write_text("{}\n\n")
    assert "bad.jsonl:1:" in error("show", "bad.jsonl")
    Path("empty.jsonl").write_text("")
    for command in ("show", "replay"):
        assert "'empty.jsonl' contains no trajectory" in error(command, "empty.jsonl")
    assert run("show", "nothing.jsonl").exit_code == 2


@pytest.mark.parametrize(("raised", "code"), [(InfrastructureError("no disk"), 2), (KeyboardInterrupt(), 130)])
def test_errors_and_ctrl_c_print_no_traceback(monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int):
    def broken(**kwargs: Any) -> None:
        raise raised

    monkeypatch.setattr("agentgym.cli.environments.environments_table", broken)
    result = run("list")
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_a_missing_extra_names_its_installation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'agentgym-suite[train]'" in error("train", "--env", "guess")
    assert "pip install 'agentgym-suite[train]'" in error("eval", "--env", "guess", "--policy", "tiny")


@pytest.mark.real
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--env", "guess", "--show-config"]])
def test_help_and_settings_of_training_need_no_torch(words: list[str]):
    code = "import sys; sys.modules['torch'] = None; from agentgym.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "train", *words], capture_output=True, text=True, check=True)
    assert "agentgym train --env sql" in done.stdout or "env: guess" in done.stdout


@pytest.mark.real
def test_help_of_a_command_needs_no_pydantic():
    code = "import sys; sys.modules['pydantic'] = None; from agentgym.cli.app import main; main()"
    subprocess.run([sys.executable, "-c", code, "eval", "--help"], capture_output=True, check=True)
