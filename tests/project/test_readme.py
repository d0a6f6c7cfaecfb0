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

from agentgym.cli.app import app
from tests.doc_blocks import ROOT, Block, blocks_of
from tests.waiting import HANG_S

pytestmark = pytest.mark.real

BLOCKS = blocks_of(ROOT / "README.md")
PYTHON = [block for block in BLOCKS if block.language == "python"]
COMMANDS = [words for block in BLOCKS if block.language == "sh" for words in block.commands]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the README; their modules are unloaded afterwards."""
    files = {block.file: block.text for block in PYTHON if block.file}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("block", PYTHON)
def test_python_blocks_run(folder: Path, block: Block):
    code = [sys.executable, "-W", "error", "-c", block.text]
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_run_in_order(folder: Path):
    ran = [words for words in COMMANDS if words[0] == "agentgym" and words[1] not in ("train", "play")]
    assert {words[1] for words in ran} >= {"check", "eval", "show", "replay"}
    for words in ran:
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"


def test_training_commands_use_existing_settings():
    pytest.importorskip("torch")
    trainings = [words[2:] for words in COMMANDS if words[:2] == ["agentgym", "train"]]
    assert len(trainings) >= 4
    for words in trainings:
        options = [word for word in words if word != "--resume"]  # there is no run
        result = CliRunner().invoke(app, ["train", *options, "--show-config"])
        assert result.exit_code == 0, f"{words}: {result.output}"


def test_scripts_exist_and_have_valid_shell_syntax():
    programs = {words[0] for words in COMMANDS} - {"agentgym", "pip", "python3"}
    assert programs == {"scripts/train", "scripts/test"}
    for path in [*sorted((ROOT / "scripts").iterdir()), *sorted((ROOT / ".ci").iterdir())]:
        assert os.access(path, os.X_OK), path
        shell = path.read_text(encoding="utf-8").partition("\n")[0].rpartition("/")[2].removeprefix("env ")
        if path.suffix == ".py" or shell == "python3":
            continue
        done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=HANG_S, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


@pytest.mark.parametrize("page", PAGES)
def test_links_point_to_existing_files(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
