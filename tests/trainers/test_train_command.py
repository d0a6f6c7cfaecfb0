"""`agentgym train`: help, settings, and one clear line for what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.cli.app import app
from agentgym.trainers.config import to_dict
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words])


@each_row(
    "words, message",
    [
        (["--env", "sqll"], "unknown environment 'sqll'; did you mean 'sql'?"),
        (["--env", "guess", "--model", "/nope"], "cannot load model '/nope'"),
        (["--env", "guess", "--set", "colour=red"], "'guess' takes no argument 'colour'. It takes: "),
        (["--env", "guess", "--eval-split", "exam"], "unknown split 'exam'"),
        (["--env", "guess", "--resume"], "there is nothing to resume"),
        (["--env", "guess", "--warm-start-steps", "0", "--only", "warm-start"], "these settings have no warm start"),
        (["--env", "guess", "--use-vllm", "--model", "some/model"], "pip install 'agentgym-suite[vllm]'"),
    ],
)
def test_wrong_usage_gets_one_line(words: list[str], message: str):
    result = run(*words)
    assert result.exit_code == 2, result.output
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    assert message in line


def test_a_run_replaces_no_files_that_no_run_has_written(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text("mine")
    result = run("--env", "guess", "--output-dir", str(tmp_path))
    assert (result.exit_code, "holds metrics.jsonl, but no run of agentgym" in result.stderr) == (2, True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


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
        ("costs={find: 5e-4}", {"costs": {"find": 5e-4}}),
        ("country=no", {"country": "no"}),
        ("since=2024-01-01", {"since": "2024-01-01"}),
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


def option(name: str, value: object) -> str:
    """Return the option that gives a setting this value."""
    name = name.removesuffix("_training")  # --async
    return f"--{'' if value else 'no-'}{name}" if isinstance(value, bool) else f"--{name}={value}"


def test_a_run_can_be_started_and_continued(small: Any, letters: Any):
    words = [
        option(name, value)
        for name, value in to_dict(small(output_dir="run", steps=2)).items()
        if value not in (None, {})
    ]
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert "held-out success before" in first.stdout
    again = run(*words)
    assert again.exit_code == 2
    assert "continue it with `agentgym train --resume --output-dir run`" in again.stderr
    assert run(*words, "--resume").exit_code == 0
