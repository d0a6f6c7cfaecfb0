"""Pinning increases the version only after a change, and preserves the layout of the suite's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.pinning import add_entry, pin_suite, pin_tasks
from agentgym.eval.suites.pins import pin_file_of
from tests.rows import each_row
from tests.suite_cases import COUNTER, LINES, counting, tasks_of

TEXT = f"""\
# Why these tasks.
name: mine
version: 1  # raised by pinning
entries:
  - env: {COUNTER}
    name: counter  # of numbers
"""


def pinned_suite(path: Path) -> Path:
    path.write_text(TEXT, encoding="utf-8")
    pin_tasks(path, "counter", None, 2)
    return path


def test_pinning_unchanged_tasks_changes_nothing(tmp_path: Path):
    path = pinned_suite(tmp_path / "mine.yaml")
    before = [file.read_bytes() for file in (path, pin_file_of(path))]
    done = pin_suite(path)
    assert (done.is_same, done.version, done.tasks, done.changed, done.gone) == (True, 1, 2, [], [])
    assert [file.read_bytes() for file in (path, pin_file_of(path))] == before


def test_a_change_raises_the_version_and_keeps_comments(tmp_path: Path):
    path = pinned_suite(tmp_path / "mine.yaml")
    path.write_text(path.read_text(encoding="utf-8") + "    attempts: 2\n", encoding="utf-8")
    done = pin_suite(path)
    assert (done.was, done.version, done.is_same) == (1, 2, False)
    assert path.read_text(encoding="utf-8") == TEXT.replace("version: 1", "version: 2") + "    attempts: 2\n"
    assert load_suite(path).version == 2


def test_changed_and_missing_tasks_are_reported_and_pinned_again(tmp_path: Path):
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    path = tmp_path / "mine.yaml"
    data = {"words": str(file)}
    add_entry(path, {"env": LINES, "name": "lines", "data": {"file": "words"}}, None, 10, data)
    file.write_text("one\n2\n", encoding="utf-8")
    done = pin_suite(path, data)
    assert (done.changed, done.gone, done.version, done.tasks) == (["lines/1"], ["lines/2"], 2, 2)
    assert [task.prompt for task in tasks_of(load_suite(path, data), "lines")] == ["one", "2"]
    assert (pin_suite(path).skipped, pin_suite(path).is_same) == (["lines"], True)


def test_a_suite_can_be_started_and_grown_entry_by_entry(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    assert add_entry(path, {"env": COUNTER, "name": "small"}, None, 2).version == 1
    first = path.read_text(encoding="utf-8")
    entry = {"env": COUNTER, "name": "large", "arguments": {"max_turns": 12, "scheme": "outcome"}}
    assert add_entry(path, entry, "train", 3).version == 2
    assert path.read_text(encoding="utf-8").startswith(first.replace("version: 1", "version: 2"))
    suite = load_suite(path)
    assert [(entry_.name, len(entry_.pins), entry_.arguments) for entry_ in suite.entries] == [
        ("small", 2, {}),
        ("large", 3, {"max_turns": 12, "scheme": "outcome"}),
    ]


@each_row(
    ("entry", "split", "error"),
    [
        ({"env": COUNTER, "name": "counter"}, None, "another entry is named 'counter'"),
        ({"env": COUNTER, "name": "other"}, "nowhere", "unknown split 'nowhere'"),
        ({"env": COUNTER, "name": "other", "arguments": {"max": 1}}, None, "takes no argument 'max'"),
    ],
)
def test_an_entry_that_cannot_be_added_leaves_the_files_as_they_were(
    tmp_path: Path, entry: dict[str, object], split: str | None, error: str
):
    path = pinned_suite(tmp_path / "mine.yaml")
    before = [file.read_bytes() for file in (path, pin_file_of(path))]
    with pytest.raises((UsageError, TaskError), match=error):
        add_entry(path, entry, split, 2)
    assert [file.read_bytes() for file in (path, pin_file_of(path))] == before
    with pytest.raises((UsageError, TaskError)):
        add_entry(tmp_path / "new.yaml", {**entry, "env": "tests.counter_env:Nobody"}, split, 2)
    assert sorted(path_.name for path_ in tmp_path.iterdir()) == ["mine.pins.json", "mine.yaml"]


def test_no_problem_is_pinned_twice_and_long_splits_are_spread(tmp_path: Path):
    # Counters count to 1 to 5 in turn, so ten ids are five problems.
    path = counting(tmp_path / "mine.yaml")
    pin_tasks(path, "counter", "train", 10)
    assert list(load_suite(path).entries[0].pins) == [f"counter/train/{index}" for index in range(5)]
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"line {n}\n" for n in range(100)), encoding="utf-8")
    entry = {"env": LINES, "name": "lines", "data": {"file": "words"}}
    add_entry(path, entry, None, 4, {"words": str(file)})
    assert list(load_suite(path).entry("lines").pins) == ["lines/0", "lines/25", "lines/50", "lines/75"]
