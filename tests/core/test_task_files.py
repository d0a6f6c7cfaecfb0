"""Task files of environments: how commands list, refuse and describe them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.cli.app import app
from agentgym.core.registry import class_of, make
from agentgym.core.task_files import STRICT, TaskFiles
from tests.refusals import refusal

TAKING = {"sql": "folder", "search": "folder", "code": "file", "web": "file", "swe": "file"}
VALID: dict[str, Any] = {
    "unseen": 0.5,
    "keep_degenerate": True,
    "urls": {"shopping": "http://127.0.0.1:9"},
    "with_login": True,
    "engine": "sqlite",
}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def files_of(env: str) -> TaskFiles:
    files = class_of(env).files
    assert files is not None
    return files


@pytest.mark.parametrize("env", TAKING)
def test_files_and_their_options_are_arguments_of_the_environment(env: str):
    files = files_of(env)
    for option in files.options:
        message = refusal(make, env, **{files.argument: "nowhere", option: VALID.get(option, "auto")})
        assert "there is no file or folder 'nowhere'" in message
    choice, value = ("kind", "bugs") if env == "swe" else ("difficulty", 1)
    message = refusal(make, env, **{files.argument: "nowhere", choice: value})
    assert f"tasks from {files.argument}=... have no {choice} to choose" in message
    assert f"{files.argument} must be the path" in refusal(partial(make, env, **{files.argument: 3}))
    nothing: dict[str, Any] = dict.fromkeys(files.arguments - {STRICT})
    assert type(class_of(env)(**nothing).tasks) is type(class_of(env).default_tasks())


def test_left_out_entries_are_listed_with_reasons(tmp_path: Path):
    entry = {"question": "How many?", "answer": "#### 1"}
    lines = [entry, entry, {"question": "What?", "answer": None}]
    file = tmp_path / "test.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("tasks", "code", "--set", f"file={tmp_path}")
    listed = run(*words, "--left-out")
    assert listed.exit_code == 0, listed.output
    first, second, total = listed.stdout.splitlines()
    assert first.startswith(f"broken: {file}:3: no text under 'answer'")
    assert second == f"repeated: {file}:2: it repeats {file}:1"
    assert total == "2 entries are left out"
    strict = run(*words, "--strict")
    assert strict.exit_code == 2
    assert "test.jsonl:3: no text under 'answer'" in strict.stderr
