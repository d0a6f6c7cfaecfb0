"""The examples of docs/suites.md run unchanged, in order, in one folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.eval.suites import bundled_suites
from agentgym.eval.suites.file import read_suite_file
from agentgym.eval.suites.pins import HASH_CHARS

pytestmark = pytest.mark.real

PAGE = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "book.txt").write_text("Nothing of the tasks.", encoding="utf-8")
    for line in "".join(blocks("sh")).splitlines():
        program, *words = shlex.split(line, comments=True)
        if "humaneval=HumanEval.jsonl" in words:
            continue  # the data is not available
        assert program == "agentgym"
        done = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert {path.name for path in (tmp_path / "divided").iterdir()} == {"train.jsonl", "test.jsonl"}
    pins = json.loads((tmp_path / "mine.pins.json").read_text(encoding="utf-8"))["entries"]
    assert {name: len(suite_pins) for name, suite_pins in pins.items()} == {"guess": 8, "errand": 5}
    assert {len(pin) for suite_pins in pins.values() for pin in suite_pins.values()} == {HASH_CHARS}


def test_the_example_file_is_valid_and_every_bundled_suite_is_listed(tmp_path: Path):
    [text] = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert [entry.attempts for entry in read_suite_file(tmp_path / "mine.yaml").entries] == [4, 4]
    table = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([\w-]+)`", table)) == set(bundled_suites())
