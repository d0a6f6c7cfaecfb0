"""Suites are read strictly, without making an environment, and have exactly the pinned tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.policy import ScriptedPolicy
from agentgym.eval.evaluation import evaluate
from agentgym.eval.suites import SuiteId, comparable, load_suite
from agentgym.eval.suites.file import read_suite_file
from agentgym.eval.suites.loading import assemble
from agentgym.eval.suites.pinning import pin_tasks
from agentgym.eval.suites.pins import pin_file_of
from tests.rows import each_row
from tests.suite_cases import COUNTER, LINES, counting, load, tasks_of, write

ENTRY = {"env": COUNTER, "name": "counter"}
SUITE = {"name": "mine", "version": 1, "entries": [ENTRY]}


def with_entry(**fields: Any) -> dict[str, Any]:
    return {**SUITE, "entries": [{**ENTRY, **fields}]}


# The file.


@each_row(
    ("values", "message"),
    [
        (["a"], "a suite is a map"),
        ({**SUITE, "titel": "x"}, "unknown key 'titel'"),
        (with_entry(attemps=2), r"unknown key 'entries\[0\].attemps'; did you mean 'attempts'\?"),
        (with_entry(sampling={"top": 1}), "There are: temperature"),
        ({**SUITE, "version": "1"}, "version: .*valid integer, not '1'"),
        ({**SUITE, "entries": []}, "entries: .*at least 1 item"),
        ({**SUITE, "name": "../elsewhere"}, "name: "),
        (with_entry(attempts=0), r"entries\[0\].attempts: "),
        (with_entry(metrics=["sucess"]), r"unknown metric 'sucess'; did you mean 'success'\?"),
        (with_entry(arguments={"file": "x"}, data={"file": "mine"}), "'file' is in arguments and in data"),
        ({**SUITE, "entries": [ENTRY, ENTRY]}, r"entries\[1\]: another entry is named 'counter'"),
        ({**SUITE, "defaults": {"env": "sql"}}, "defaults cannot set 'env'"),
        ({**SUITE, "defaults": {"limits": {"max_token": 5}}}, "unknown key 'defaults.limits.max_token'; did you mean"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_place(tmp_path: Path, values: Any, message: str):
    path = write(tmp_path / "mine.yaml", values)
    with pytest.raises(UsageError, match=message) as error:
        read_suite_file(path)
    assert str(error.value).startswith(str(path))


def test_defaults_complete_entries_field_by_field(tmp_path: Path):
    defaults = {"attempts": 4, "limits": {"max_tokens": 9, "retries": 0}, "sampling": {"temperature": 0}}
    other = {"env": COUNTER, "name": "other", "attempts": 2, "limits": {"max_tokens": None}}
    file = read_suite_file(write(tmp_path / "s.yaml", {**SUITE, "defaults": defaults, "entries": [ENTRY, other]}))
    assert [entry.attempts for entry in file.entries] == [4, 2]
    assert [entry.limits.max_tokens for entry in file.entries] == [9, None]
    assert [entry.limits.retries for entry in file.entries] == [0, 0]
    assert [entry.sampling.temperature for entry in file.entries] == [0, 0]


# Loading.


def test_loading_neither_imports_nor_makes_an_environment(tmp_path: Path):
    path = counting(tmp_path / "mine.yaml")
    text = path.read_text(encoding="utf-8").replace(COUNTER, "nowhere.at_all:Missing")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="was changed after version 1"):
        load_suite(path)  # all of the file is read and compared, and nothing else


def test_an_entry_holds_the_settings_of_a_run(tmp_path: Path):
    path = counting(
        tmp_path / "mine.yaml",
        arguments={"max_turns": 5},
        attempts=3,
        dialect="fenced",
        limits={"max_tokens": 7, "episode_timeout_s": 60},
        sampling={"temperature": 0.5},
        metrics=["success", "pass@k"],
    )
    [entry] = load(path).entries
    assert (entry.attempts, entry.temperature, entry.metrics) == (3, 0.5, ("success", "pass@k"))
    assert (entry.limits.max_tokens, entry.limits.episode_timeout_s, entry.limits.max_new_tokens) == (7, 60, 512)
    assert entry.factory.kwargs == {"max_turns": 5, "dialect": "fenced"}
    played = evaluate(entry.factory, ScriptedPolicy(), tasks_of(load(path), "counter"), entry.attempts)
    assert (played.success, played.overall.attempts) == (1.0, 9)


# Pins.


def test_tasks_are_those_that_were_pinned_in_their_order(tmp_path: Path):
    suite = load(counting(tmp_path / "mine.yaml"))
    assert [task.id for task in tasks_of(suite, "counter")] == ["counter/test/0", "counter/test/1", "counter/test/2"]
    assert [task.id for task in tasks_of(suite, "counter")] == list(suite.entries[0].pins)


def change_pins(path: Path, old: str, new: str) -> None:
    """Change the pins and the recorded content hash, as if other tasks had been pinned."""
    pins = pin_file_of(path)
    data = json.loads(pins.read_text(encoding="utf-8").replace(old, new))
    pins.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError, match="changed after"):
        load_suite(path)
    data["content_hash"] = assemble(read_suite_file(path), data["entries"], path, {}).content_hash
    pins.write_text(json.dumps(data), encoding="utf-8")


def test_a_missing_or_changed_task_is_refused_with_the_remedy(tmp_path: Path):
    path, other = counting(tmp_path / "mine.yaml"), counting(tmp_path / "other.yaml")
    change_pins(path, load(path).entries[0].pins["counter/test/1"], "0" * 16)
    with pytest.raises(TaskError, match=r"entry 'counter': 1 of 3 tasks differ.*'counter/test/1'.*agentgym tasks pin"):
        tasks_of(load(path), "counter")
    change_pins(other, "counter/test/2", "counter/test/9")
    with pytest.raises(TaskError, match=r"1 of 3 pinned tasks cannot be found.*'counter/test/9'.*agentgym tasks pin"):
        tasks_of(load(other), "counter")


@each_row(
    ("text", "message"),
    [
        (None, "cannot read the pins"),
        ('{"version": 1}', "needs the field"),
        ('{"version": 1, "content_hash": "", "entries": {}}', "the entry 'counter' has no pinned task"),
    ],
)
def test_pins_that_are_missing_or_malformed_are_refused(tmp_path: Path, text: str | None, message: str):
    path = write(tmp_path / "mine.yaml", SUITE)
    if text is not None:
        pin_file_of(path).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        load_suite(path)


# The user's data.


def over_lines(tmp_path: Path, text: str = "one\ntwo\n") -> tuple[Path, Path]:
    """Return a suite over a user's file, and the file."""
    file = tmp_path / "lines.txt"
    file.write_text(text, encoding="utf-8")
    path = write(tmp_path / "mine.yaml", with_entry(env=LINES, name="lines", data={"file": "words"}))
    pin_tasks(path, "lines", None, 10, {"words": str(file)})
    return path, file


def test_an_entry_without_its_data_is_skipped_with_a_message(tmp_path: Path):
    path, file = over_lines(tmp_path)
    suite = load(path)
    assert (list(suite.entries), [entry.missing for entry in suite.skipped]) == ([], [("words",)])
    with pytest.raises(UsageError, match="name its file or folder: --data words=PATH"):
        _ = suite.skipped[0].factory
    suite_with_data = load(path, words=file)
    assert (suite_with_data.skipped, [task.prompt for task in tasks_of(suite_with_data, "lines")]) == (
        [],
        ["one", "two"],
    )
    assert suite_with_data.id == suite.id


@each_row(
    ("data", "message"),
    [({"word": "lines.txt"}, "did you mean 'words'"), ({"words": "nowhere.txt"}, "'nowhere.txt' does not exist")],
)
def test_unknown_or_missing_data_is_refused(tmp_path: Path, data: dict[str, str], message: str):
    path, _ = over_lines(tmp_path)
    with pytest.raises(UsageError, match=message):
        load_suite(path, data)


# Identity.


def test_results_compare_only_on_the_same_content_of_the_same_version():
    suite = SuiteId("core", 2, "a" * 64)
    comparable(suite, SuiteId.from_dict(suite.to_dict()))
    for other, reason in (
        (SuiteId("sql", 2, "a" * 64), "results on the suite 'core' cannot be compared with results on 'sql'"),
        (SuiteId("core", 3, "b" * 64), "versions 2 and 3 of the suite 'core'"),
        (SuiteId("core", 2, "b" * 64), "its content differs"),
    ):
        for pair in ((suite, other), (other, suite)):
            with pytest.raises(UsageError):
                comparable(*pair)
        with pytest.raises(UsageError, match=reason):
            comparable(suite, other)


CHANGES = [
    {"arguments": {"max_turns": 4}},
    {"attempts": 2},
    {"limits": {"max_tokens": 100}},
    {"dialect": "tags"},
    {"sampling": {"temperature": 0.0}},
    {"number": 2},
]


@each_row("change", CHANGES)
def test_settings_that_affect_results_change_the_content(tmp_path: Path, change: dict[str, Any]):
    plain, changed = counting(tmp_path / "a.yaml"), counting(tmp_path / "b.yaml", **change)
    assert load(plain).content_hash != load(changed).content_hash


def test_descriptions_and_metrics_do_not_change_the_content(tmp_path: Path):
    plain, other = counting(tmp_path / "a.yaml"), counting(tmp_path / "b.yaml", metrics=["turns"])
    other.write_text(other.read_text(encoding="utf-8") + "description: Other words.\n", encoding="utf-8")
    assert load(plain).content_hash == load(other).content_hash


@each_row("change", ["version: 2", "version: 1\ndefaults: {attempts: 3}"])
def test_a_suite_that_was_changed_is_refused_until_it_is_pinned_again(tmp_path: Path, change: str):
    path = counting(tmp_path / "mine.yaml")
    path.write_text(path.read_text(encoding="utf-8").replace("version: 1", change), encoding="utf-8")
    with pytest.raises(UsageError, match=r"was changed after version 1 .*agentgym tasks pin"):
        load_suite(path)
