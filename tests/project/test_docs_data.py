"""The commands of docs/data.md run unchanged on small data sets in the published layouts."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.base.settings import parse_settings
from agentgym.cli.app import app
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import iterate
from agentgym.core.task_files import LeavesOut, Why
from agentgym.eval.evaluation import evaluate
from agentgym.rollout import EnvFactory
from tests.doc_blocks import DOCS, blocks_of
from tests.published import WRITERS

pytestmark = pytest.mark.real

PAGE = (DOCS / "data.md").read_text(encoding="utf-8")
COMMANDS = [words for block in blocks_of(DOCS / "data.md") for words in block.commands]


def shown_settings(name: str) -> tuple[str, dict[str, Any]]:
    """Return the environment and arguments of the `eval` command in a data set's section."""
    section = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    command = re.sub(r"\s*\\\n\s*", " ", section).partition("agentgym eval --env ")[2].partition("\n")[0]
    env, *words = shlex.split(command)
    return env, parse_settings([value for flag, value in pairwise(words) if flag == "--set"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    pytest.importorskip("pyarrow")
    for write in WRITERS.values():
        write(folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=shlex.join)
def test_commands_run(folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]):
    monkeypatch.chdir(folder)
    program, *words = command
    assert program == "agentgym"
    if words[0] == "train":
        pytest.importorskip("trl", reason="needs the [train] extra")
        words.append("--show-config")
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    if words[0] == "eval":
        assert re.search(r"all\s+100.0 %", result.stdout), result.stdout
    if words[0] == "tasks" and "--left-out" not in words:
        assert "difficulty" in result.stdout


@pytest.mark.parametrize("name", WRITERS)
def test_every_entry_becomes_a_task_solved_by_its_gold(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(folder)
    factory = EnvFactory(*shown_settings(name))
    env = factory()
    source = env.tasks
    env.close()
    assert isinstance(source, LeavesOut)
    assert [entry for entry in source.left_out if entry.why is not Why.REPEATED] == []
    tasks = [task for split in source.splits for task in iterate(source, split)]
    assert tasks
    assert evaluate(factory, ScriptedPolicy(), tasks).success == 1.0
