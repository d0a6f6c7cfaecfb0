"""`agentgym train`: help, settings, and one clear line for what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.cli import app
from agentgym.trainers.config import FIELDS, bundled_recipes, load_config, to_dict

pytestmark = pytest.mark.train


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words])


def test_help_shows_examples_and_recipes():
    shown = run("--help")
    assert shown.exit_code == 0
    assert "agentgym train --env sql" in shown.stdout
    assert all(name in shown.stdout for name in bundled_recipes())
    assert "accelerate-" not in shown.stdout


def test_the_configuration_is_shown_in_full():
    shown = run("--env", "sql", "--credit", "turn", "--set", "max_turns=3", "--show-config")
    assert shown.exit_code == 0
    values = yaml.safe_load(shown.stdout)
    assert list(values) == list(FIELDS)
    assert values == to_dict(load_config(None, {"env": "sql", "credit": "turn", "env_kwargs": {"max_turns": 3}}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "sqll"], "unknown environment 'sqll'; did you mean 'sql'?"),
        (["--env", "guess", "--model", "/nope"], "cannot load model '/nope'"),
        (["--group-size", "1"], "group_size must be at least 2: an advantage is a comparison within a group"),
        (["--unknown", "3"], "unknown setting 'unknown'"),
        (["--stepps", "3"], "did you mean 'steps'?"),
        (["--steps"], "--steps needs a value"),
        (["--steps", "3.5"], "setting 'steps'"),
        (["steps"], "unexpected 'steps'"),
        (["--credit", "magic"], "setting 'credit'"),
        (["--recipe", "nothing"], "no recipe 'nothing'"),
        (["--env", "guess", "--set", "colour=red"], "'agentgym/guess-v0' does not take these arguments"),
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
    assert message.replace("agentgym/guess-v0", "guess") in line


def test_wrong_usage_leaves_nothing_behind():
    assert run("--env", "sqll").exit_code == 2
    assert list(Path.cwd().iterdir()) == []


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
