from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agentgym.checks import run_checks
from agentgym.commands.scaffold import write_scaffold
from agentgym.errors import UsageError
from agentgym.registry import load_class, make
from tests.refusals import differing, not_refused


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A scaffold in a folder of its own, importable."""
    monkeypatch.syspath_prepend(tmp_path)
    target = write_scaffold("parcel-count", tmp_path).target
    yield target
    sys.modules.pop("parcel_count", None)


@pytest.mark.real
def test_a_new_environment_keeps_every_guarantee(made: str):
    report = run_checks(made)
    assert report.passed, report.problems


def test_a_new_environment_has_tools_tasks_and_a_docstring(made: str):
    env = make(made)
    assert env.tools.names == ("read", "answer")
    assert env.tasks.splits == ("train", "validation", "test")
    assert (load_class(made).__doc__ or "").startswith("Parcel count: ")


@pytest.mark.real
def test_its_own_tests_pass(tmp_path: Path):
    scaffold = write_scaffold("parcel-count", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", scaffold.test.name]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout


def test_names_are_made_into_module_and_class_or_refused(tmp_path: Path):
    rows = [
        ("word-count", "word_count:WordCountEnv"),
        ("WordCount", "word_count:WordCountEnv"),
        ("Word Count Env", "word_count:WordCountEnv"),
        ("web2", "web2:Web2Env"),
    ]
    folders = map(str, count())
    assert differing(lambda name: write_scaffold(name, tmp_path / next(folders)).target, rows) == []
    wrong = ["", "2fast", "a/b", "../up", "class", "json", "agentgym", "naïve!", "test", "test-bench", "x" * 300]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not_refused(lambda name: write_scaffold(name, empty), [(name, "name") for name in wrong]) == []
    assert list(empty.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text("precious")
    with pytest.raises(UsageError, match="already there"):
        write_scaffold("mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write to '.*file'"):
        write_scaffold("mine", tmp_path / "file")
