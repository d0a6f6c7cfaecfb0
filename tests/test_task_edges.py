"""Task sources at the ends of their splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.task import GeneratedTasks, Task, TaskList, iterate, read_manifest, split_of, write_manifest


def generate(split: str, index: int) -> Task:
    return Task(f"gen/{split}/{index}", split, f"{split} question {index}")


def source(size: int | None) -> GeneratedTasks:
    return GeneratedTasks("gen", generate, {"train": size})


def ids(size: int | None, limit: int | None = None, start: int = 0) -> list[int]:
    return [int(task.id.rpartition("/")[2]) for task in iterate(source(size), "train", limit, start)]


def test_iteration_begins_where_it_is_told_and_ends_with_the_split_or_the_limit():
    assert ids(4) == [0, 1, 2, 3]
    assert ids(4, start=1) == [1, 2, 3]
    assert ids(4, limit=2) == [0, 1]
    assert ids(4, limit=9, start=2) == [2, 3]
    assert ids(4, limit=0) == []
    assert ids(None, limit=2, start=5) == [5, 6]


@pytest.mark.parametrize("tasks", [source(3), TaskList([generate("train", i) for i in range(3)])])
def test_a_split_ends_with_its_last_task(tasks: GeneratedTasks | TaskList):
    assert tasks.get("train", 2).id == "gen/train/2"
    assert tasks.get("train", 0).id == "gen/train/0"
    for index in (3, -1):
        with pytest.raises(TaskError):
            tasks.get("train", index)


def test_a_split_without_end_has_a_beginning():
    assert source(None).get("train", 10**9).id == f"gen/train/{10**9}"
    with pytest.raises(TaskError, match="has no task -1; it has no end"):
        source(None).get("train", -1)


def test_a_task_is_easy_unless_it_says_otherwise():
    assert generate("train", 0).difficulty == 1
    assert Task.from_dict({"id": "t", "split": "train", "prompt": "?"}) == Task("t", "train", "?")


def test_a_list_finds_what_it_holds_and_nothing_else():
    tasks = TaskList([generate("train", 0)])
    assert tasks.find("gen/train/0") == generate("train", 0)
    assert tasks.size("train") == 1
    with pytest.raises(TaskError, match="no task 'gen/train/1'"):
        tasks.find("gen/train/1")


def test_content_falls_into_splits_by_a_hash_that_never_changes():
    """Moved boundaries would let tasks that were trained on into the held-out split."""
    shares = {"train": 0.5, "test": 0.25, "validation": 0.25}
    assert [split_of(str(number), shares) for number in range(12)] == [
        "train", "train", "validation", "train", "train", "validation",
        "validation", "train", "train", "train", "train", "train",
    ]  # fmt: skip


def test_shares_that_add_up_to_a_little_less_than_one_leave_nothing_out():
    assert {split_of(str(number), {"train": 0.0, "test": 0.0}) for number in range(20)} == {"test"}


@pytest.mark.parametrize(("line", "number"), [("nonsense\n", 1), ("{}\n", 1)])
def test_the_first_line_of_a_manifest_is_line_one(tmp_path: Path, line: str, number: int):
    (tmp_path / "suite.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"suite\.jsonl:{number}: not a task"):
        read_manifest(tmp_path / "suite.jsonl")


def test_a_manifest_keeps_the_order_of_its_tasks(tmp_path: Path):
    tasks = [generate("train", index) for index in (3, 1, 2)]
    write_manifest(tmp_path / "suite.jsonl", tasks)
    assert list(iterate(read_manifest(tmp_path / "suite.jsonl"), "train")) == tasks
