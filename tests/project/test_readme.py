"""The Python and the commands of the README run unchanged, and its links are valid."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli import app

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def commands() -> list[list[str]]:
    """Every line of every shell block, in order, as words."""
    return [
        words for block in blocks("sh") for line in block.splitlines() if (words := shlex.split(line, comments=True))
    ]


def named(block: str) -> str | None:
    """The file that a block of Python is shown as, from its first line (`# receipt.py`)."""
    match = re.match(r"# (\w+\.py)\n", block)
    return match and match[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the README; their modules are unloaded afterwards."""
    files = {name: block for block in blocks("python") if (name := named(block))}
    for name, block in files.items():
        (tmp_path / name).write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("index", range(len(blocks("python"))))
def test_python_blocks_run(folder: Path, index: int):
    code = [sys.executable, "-W", "error", "-c", blocks("python")[index]]
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_records_that_are_printed_are_solved(folder: Path):
    [block] = [block for block in blocks("python") if "engine.play(" in block]
    done = subprocess.run([sys.executable, "-c", block], cwd=folder, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(" solved 1.0 " in line for line in lines)


def test_commands_run_in_order(folder: Path):
    ran = [words for words in commands() if words[0] == "agentgym" and words[1] not in ("train", "play")]
    assert {words[1] for words in ran} >= {"check", "eval", "show", "replay"}
    for words in ran:
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"


def test_the_environment_shown_can_be_played(folder: Path):
    assert ["agentgym", "play", "receipt:ReceiptEnv"] in commands()
    result = CliRunner().invoke(app, ["play", "receipt:ReceiptEnv"], input="read 1\n:quit\n")
    assert result.exit_code == 0, result.output
    assert "cents" in result.output


def test_training_commands_use_existing_settings():
    pytest.importorskip("torch")
    from agentgym.trainers.command import parse
    from agentgym.trainers.config import load_config

    trainings = [words[2:] for words in commands() if words[:2] == ["agentgym", "train"]]
    assert len(trainings) >= 4
    for words in trainings:
        recipe, overrides, _ = parse(words)
        load_config(recipe, overrides)


def test_scripts_exist_and_have_valid_shell_syntax():
    programs = {words[0] for words in commands()} - {"agentgym"}
    assert programs == {"scripts/train", "scripts/test"}
    for path in [*sorted((ROOT / "scripts").iterdir()), *sorted((ROOT / ".ci").iterdir())]:
        assert os.access(path, os.X_OK), path
        shell = path.read_text(encoding="utf-8").partition("\n")[0].rpartition("/")[2].removeprefix("env ")
        if shell == "python3":
            continue
        done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


@pytest.mark.parametrize("page", PAGES)
def test_links_point_to_existing_files(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
