"""`agentgym train`: help, settings, and one clear line for what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.cli.app import app
from agentgym.trainers.config import FIELDS, load_config, to_dict
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words])


def test_the_configuration_is_shown_in_full():
    result = run("--env", "sql", "--credit", "turn", "--set", "max_turns=3", "--show-config")
    assert result.exit_code == 0
    values = yaml.safe_load(result.stdout)
    assert list(values) == list(FIELDS)
    assert values == to_dict(load_config(None, {"env": "sql", "credit": "turn", "env_kwargs": {"max_turns": 3}}))


@each_row(
    "words, message",
    [
        (["--env", "sqll"], "unknown environment 'sqll'; did you mean 'sql'?"),
        (["--env", "guess", "--model", "/nope"], "cannot load model '/nope'"),
        (["--stepps", "3"], "did you mean 'steps'?"),
        (["--steps"], "--steps needs a value"),
        (["steps"], "unexpected 'steps'"),
        (["--env", "guess", "--set", "colour=red"], "'guess' takes no argument 'colour'. It takes: "),
        (["--env", "guess", "--set", "max-turn=3"], "'guess' takes no argument 'max_turn'; did you mean 'max_turns'?"),
        (["--env", "guess", "--set", "max_turns"], "--set takes KEY=VALUE, not 'max_turns'"),
        (["--group-size", "[8"], "--group-size: cannot read '[8' as a list or a map"),
        (["--env", "guess", "--eval-split", "exam"], "unknown split 'exam'"),
        (["--env", "guess", "--resume"], "there is nothing to resume"),
        (["--env", "guess", "--use-vllm", "--model", "some/model"], "pip install 'agentgym-suite[vllm]'"),
        (["--env", "guess", "--dialect", "klingon"], "klingon"),
    ],
)
def test_wrong_usage_gets_one_line(words: list[str], message: str):
    result = run(*words)
    assert result.exit_code == 2, result.output
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    assert message in line


ECHO = """
from agentgym.envs.guess import GuessEnv
from agentgym.base.errors import UsageError

class Echo(GuessEnv):
    def __init__(self, **given):
        raise UsageError(repr({key: value for key, value in given.items() if key != "dialect"}))
"""


@each_row(
    "setting, argument",
    [
        ("tool-cost=5e-4", {"tool_cost": 5e-4}),
        ("tool_cost=1e6", {"tool_cost": 1e6}),
        ("costs=[1e-3, 2]", {"costs": [1e-3, 2]}),
        ("costs={find: 5e-4}", {"costs": {"find": 5e-4}}),
        ("dry=true", {"dry": True}),
        ("country=no", {"country": "no"}),
        ("since=2024-01-01", {"since": "2024-01-01"}),
        ("model=null", {"model": None}),
        ("seed='7'", {"seed": "7"}),
        ("name=*", {"name": "*"}),
    ],
)
def test_a_setting_means_the_same_to_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, argument: dict[str, Any]
):
    (tmp_path / "echoing.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    env = "echoing:Echo"
    for words in (["eval", "--env", env], ["check", env], ["play", env], ["tasks", env], ["train", "--env", env]):
        result = CliRunner().invoke(app, [*words, "--set", setting])
        assert (result.exit_code, result.stderr) == (2, f"Error: {argument}\n"), words


def test_a_flag_is_read_as_a_setting_is(tmp_path: Path):
    def shown(*words: str) -> Any:
        return yaml.safe_load(run("--env", "guess", *words, "--show-config").stdout)

    assert shown("--learning-rate", "1e-6")["learning_rate"] == 1e-6
    assert shown("--env-kwargs", "{max_turns: 3, tool_cost: 5e-4}")["env_kwargs"] == {"max_turns": 3, "tool_cost": 5e-4}
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("env: guess\nenv_kwargs: {tool_cost: 5e-4, country: no}\n")
    assert shown("--recipe", str(recipe))["env_kwargs"] == {"tool_cost": 5e-4, "country": "no"}
    # A setting that is text is what was typed, whatever it looks like.
    assert shown("--model", "2024")["model"] == "2024"
    assert shown("--eval-split", "1e3")["eval_split"] == "1e3"
    assert shown("--eval-split", "null")["eval_split"] is None


def test_a_run_can_be_started_and_continued(small: Any, letters: Any):
    words = [
        f"--{name}={value}" for name, value in to_dict(small(output_dir="run", steps=2)).items() if value is not None
    ]
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert "held-out success before" in first.stdout
    again = run(*words)
    assert again.exit_code == 2
    assert "continue it with --resume" in again.stderr
    assert run(*words, "--resume").exit_code == 0


@each_row(
    "has_checkpoint, message",
    [
        (True, "has a checkpoint of step 3 of 9; the same command with --resume continues from it"),
        (False, "has no checkpoint yet; the same command with --resume starts its training again"),
    ],
)
def test_an_interrupted_run_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool, message: str
):
    def stopped(config: Any) -> None:
        config.folder.mkdir()
        (config.folder / "config.yaml").touch()
        if has_checkpoint:
            (config.folder / "checkpoint-6").mkdir()
            (config.folder / "checkpoint-6" / "complete").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.trainers.train.train", stopped)
    words = ["--env", "guess", "--steps", "9", "--updates-per-step", "2"]
    result = run(*words, "--output-dir", str(tmp_path / "run"))
    assert result.exit_code == 130
    assert f"The run in {tmp_path / 'run'} {message}" in result.stderr
