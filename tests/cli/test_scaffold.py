"""`agentgym new` writes a working environment with tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.check import run_checks
from agentgym.cli.scaffold import write_scaffold
from tests.refusals import differing, not_refused
from tests.waiting import HANG_S


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Write an importable scaffold and return its `module:Class`."""
    monkeypatch.syspath_prepend(tmp_path)
    yield write_scaffold("parcel-count", tmp_path).target
    sys.modules.pop("parcel_count", None)


@pytest.mark.real
def test_a_scaffold_passes_all_checks(target: str):
    report = run_checks(target)
    assert report.passed, report.problems


@pytest.mark.real
def test_tests_of_a_scaffold_pass(tmp_path: Path):
    scaffold = write_scaffold("parcel-count", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", scaffold.test.name]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout


def test_names_become_module_and_class_or_are_refused(tmp_path: Path):
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


def test_files_are_not_overwritten_and_bad_folders_are_named(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text("precious")
    with pytest.raises(UsageError, match=r"test_mine\.py"):
        write_scaffold("mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
    with pytest.raises(UsageError, match=r"cannot write to '.*test_mine\.py'"):
        write_scaffold("mine", tmp_path / "test_mine.py")
