"""Tasks are data with stable hashes; sources are deterministic; splits cannot overlap; manifests pin a suite."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import TaskError, UsageError
from agentgym.task import (
    GeneratedTasks,
    Task,
    TaskList,
    TaskSource,
    check_split,
    iterate,
    read_manifest,
    split_of,
    write_manifest,
)

TASK = Task("t/train/0", "train", "Où est-ce?", 2, {"rows": [1, None, "é"]}, {"answer": "là"}, ("where",))


def generate(split: str, index: int) -> Task:
    return Task(f"gen/{split}/{index}", split, f"{split} question {index}")


def source(**sizes: int | None) -> GeneratedTasks:
    return GeneratedTasks("gen", generate, sizes or {"train": None, "test": 4})


# Tasks.


def test_a_task_survives_json_and_pickle():
    assert Task.from_dict(json.loads(json.dumps(TASK.to_dict()))) == TASK
    assert pickle.loads(pickle.dumps(TASK)).hash == TASK.hash


def test_the_hash_is_about_content_not_about_names():
    same = Task("other/test/9", "test", TASK.prompt, TASK.difficulty, dict(TASK.data), dict(TASK.gold), TASK.tags)
    assert same.hash == TASK.hash


@pytest.mark.parametrize("change", [{"prompt": "x"}, {"difficulty": 3}, {"data": {}}, {"gold": {}}, {"tags": ()}])
def test_any_change_of_content_changes_the_hash(change: dict[str, Any]):
    values = TASK.to_dict() | change
    values.pop("hash")
    assert Task.from_dict(values).hash != TASK.hash


def test_the_hash_never_changes_between_releases():
    assert Task("a", "train", "p").hash == "9dc67011493bae82e0d4b5f3ddba9ee8f167ddb8f86476de2d2572120bf3b9df"


def test_a_task_that_was_tampered_with_is_refused():
    with pytest.raises(TaskError, match="'t/train/0' was changed: its hash is"):
        Task.from_dict(TASK.to_dict() | {"gold": {"answer": "ici"}})


# Splits.


@given(st.text())
def test_content_belongs_to_one_split_forever(content: str):
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    assert split_of(content, shares) == split_of(content, shares)
    assert split_of(content, shares) in shares


def test_shares_are_kept():
    drawn = [split_of(str(number), {"train": 0.75, "test": 0.25}) for number in range(4000)]
    assert 0.72 < drawn.count("train") / 4000 < 0.78


def test_an_unknown_split_is_told_which_there_are():
    with pytest.raises(TaskError, match="unknown split 'dev'; this task source has: train, test"):
        check_split(source(), "dev")


# Sources.


@pytest.mark.parametrize("tasks", [source(), TaskList([TASK, generate("test", 0)])])
def test_sources_keep_the_protocol(tasks: TaskSource):
    assert isinstance(tasks, TaskSource)
    assert tasks.splits == ("train", "test")
    first = tasks.get("train", 0)
    assert tasks.find(first.id) == first == tasks.get("train", 0)
    for wrong in (lambda: tasks.get("test", 99), lambda: tasks.get("train", -1), lambda: tasks.size("dev")):
        with pytest.raises(TaskError):
            wrong()


@pytest.mark.parametrize("task_id", ["", "gen", "gen/train", "gen/dev/0", "gen/train/x", "gen/train/-1", "old/train/0"])
def test_ids_that_name_nothing_are_refused(task_id: str):
    with pytest.raises(TaskError, match=r"no task .*; ids look like gen/train/0"):
        source().find(task_id)


def test_an_id_beyond_the_end_of_a_split_is_refused():
    with pytest.raises(TaskError, match="split 'test' has no task 4; it has 4"):
        source().find("gen/test/4")


def test_iteration_is_bounded():
    assert [task.id for task in iterate(source(), "test", limit=2, start=3)] == ["gen/test/3"]
    assert len(list(iterate(source(), "train", limit=7))) == 7
    with pytest.raises(TaskError, match="split 'train' has no end; pass a limit"):
        list(iterate(source(), "train"))


def test_a_list_refuses_the_same_problem_in_two_splits():
    twin = Task("twin", "test", TASK.prompt, TASK.difficulty, TASK.data, TASK.gold, TASK.tags)
    with pytest.raises(TaskError, match=r"'t/train/0' \(train\) and 'twin' \(test\) are the same problem"):
        TaskList([TASK, twin])


def test_a_list_refuses_an_id_twice_and_nothing_at_all():
    with pytest.raises(TaskError, match="task id 't/train/0' appears twice"):
        TaskList([TASK, TASK])
    with pytest.raises(TaskError, match="needs at least one task"):
        TaskList([])


# Manifests.


def test_a_manifest_pins_tasks_exactly(tmp_path: Path):
    path = tmp_path / "suite.jsonl"
    write_manifest(path, [TASK, *iterate(source(), "test")])
    tasks = read_manifest(path)
    assert tasks.get("train", 0) == TASK
    assert [tasks.get("test", index) for index in range(4)] == list(iterate(source(), "test"))


def test_line_separators_in_a_prompt_do_not_break_a_manifest(tmp_path: Path):
    task = Task("t", "test", "one\u2028two\x85three\nfour\x0bfive")
    write_manifest(tmp_path / "suite.jsonl", [task])
    assert read_manifest(tmp_path / "suite.jsonl").find("t") == task


def test_a_manifest_that_was_edited_is_refused(tmp_path: Path):
    path = tmp_path / "suite.jsonl"
    write_manifest(path, [TASK])
    path.write_text(path.read_text(encoding="utf-8").replace('"là"', '"ici"'), encoding="utf-8")
    with pytest.raises(TaskError, match="was changed"):
        read_manifest(path)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1]",
        "null",
        '{"id": "x"}',
        '{"id": "x", "split": "y", "prompt": "z", "no": 1}',
        '{"id": 1, "split": "y", "prompt": "z"}',
        '{"id": "x", "split": ["y"], "prompt": "z"}',
        '{"id": "x", "split": "y", "prompt": "z", "difficulty": "hard"}',
        '{"id": "x", "split": "y", "prompt": "z", "gold": []}',
        '{"id": "x", "split": "y", "prompt": "z", "tags": 3}',
        '{"id": "x", "split": "y", "prompt": "z", "hash": 3}',
        '{"id": "x", "split": "y", "prompt": "\\udcff"}',
        '{"id": "x", "split": "y", "prompt": "z", "data": {"a": NaN}}',
        '{"id": "x", "split": "y", "pro',
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, line: str):
    path = tmp_path / "suite.jsonl"
    write_manifest(path, [TASK])
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"suite\.jsonl:2: not a task"):
        read_manifest(path)


def test_the_hash_of_a_task_waits_for_no_other():
    began, may_go_on = threading.Event(), threading.Event()

    class Slow(dict[str, Any]):
        def items(self) -> Any:
            began.set()
            may_go_on.wait(60)
            return super().items()

    slow, quick = (Task("a/train/0", "train", "x", data=data) for data in (Slow(n=1), {"n": 1}))
    hashes: list[str] = []
    hashing = threading.Thread(target=lambda: hashes.append(slow.hash), daemon=True)
    hashing.start()
    assert began.wait(60)
    other = threading.Thread(target=lambda: hashes.append(quick.hash), daemon=True)
    other.start()
    other.join(60)
    assert len(hashes) == 1
    may_go_on.set()
    hashing.join(60)
    assert hashes == [quick.hash, quick.hash]
