"""Tasks with stable hashes, deterministic sources, disjoint splits, and manifests."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.task import (
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
from tests.refusals import not_refused, refusal

TASK = Task("t/train/0", "train", "Où est-ce?", 2, {"rows": [1, None, "é"]}, {"answer": "là"}, ("where",))


def generate(split: str, index: int) -> Task:
    return Task(f"gen/{split}/{index}", split, f"{split} question {index}")


def source(**sizes: int | None) -> GeneratedTasks:
    return GeneratedTasks("gen", generate, sizes or {"train": None, "test": 4})


# Tasks.


def test_a_task_survives_json_and_pickle_and_has_defaults():
    assert Task.from_dict(json.loads(json.dumps(TASK.to_dict()))) == TASK
    assert pickle.loads(pickle.dumps(TASK)).hash == TASK.hash
    assert Task.from_dict({"id": "t", "split": "train", "prompt": "?"}) == Task("t", "train", "?")
    assert generate("train", 0).difficulty == 1


def test_the_hash_covers_content_but_not_id_or_split():
    same = Task("other/test/9", "test", TASK.prompt, TASK.difficulty, dict(TASK.data), dict(TASK.gold), TASK.tags)
    assert same.hash == TASK.hash
    values = {name: value for name, value in TASK.to_dict().items() if name != "hash"}
    for change in ({"prompt": "x"}, {"difficulty": 3}, {"data": {}}, {"gold": {}}, {"tags": ()}):
        assert Task.from_dict(values | change).hash != TASK.hash, change
    # It never changes between releases.
    assert Task("a", "train", "p").hash == "9dc67011493bae82e0d4b5f3ddba9ee8f167ddb8f86476de2d2572120bf3b9df"
    with pytest.raises(TaskError, match="'t/train/0' was changed"):
        Task.from_dict(TASK.to_dict() | {"gold": {"answer": "ici"}})


# Splits.


def test_splits_of_content_never_change():
    """Moved boundaries would let tasks that were trained on into the held-out split."""
    shares = {"train": 0.5, "test": 0.25, "validation": 0.25}
    splits = {"train": {0, 1, 3, 4, 7, 8, 9, 10, 11}, "validation": {2, 5, 6}}
    for split, numbers in splits.items():
        assert {number for number in range(12) if split_of(str(number), shares) == split} == numbers
    assigned = [split_of(str(number), {"train": 0.75, "test": 0.25}) for number in range(4000)]
    assert 0.72 < assigned.count("train") / 4000 < 0.78
    # Shares that add up to a little less than one leave nothing out.
    assert {split_of(str(number), {"train": 0.0, "test": 0.0}) for number in range(20)} == {"test"}


# Sources.


@pytest.mark.parametrize(
    "tasks", [source(train=3, test=1), TaskList([*(generate("train", i) for i in range(3)), generate("test", 0)])]
)
def test_sources_implement_the_protocol_within_their_bounds(tasks: GeneratedTasks | TaskList):
    assert isinstance(tasks, TaskSource)
    assert (tasks.splits, tasks.size("train")) == (("train", "test"), 3)
    for index in (0, 2):
        task = tasks.get("train", index)
        assert (task.id, tasks.find(task.id)) == (f"gen/train/{index}", task)
    for split, index in (("train", 3), ("train", -1), ("dev", 0)):
        assert refusal(tasks.get, split, index, raises=TaskError)
    assert "gen/train/9" in refusal(tasks.find, "gen/train/9", raises=TaskError) or isinstance(tasks, GeneratedTasks)
    assert "train, test" in refusal(check_split, tasks, "dev", raises=TaskError)


def test_invalid_ids_are_refused_with_an_example():
    wrong = ("", "gen", "gen/train", "gen/dev/0", "gen/train/x", "gen/train/-1", "old/train/0")
    assert not_refused(source().find, [(task_id, "ids look like gen/train/0") for task_id in wrong], TaskError) == []
    assert "it has 4" in refusal(source().find, "gen/test/4", raises=TaskError)
    assert source().get("train", 10**9).id == f"gen/train/{10**9}"
    assert "it has no end" in refusal(source().get, "train", -1, raises=TaskError)


def test_iteration_runs_from_start_to_the_end_or_limit():
    def indices(size: int | None, limit: int | None = None, start: int = 0) -> list[int]:
        return [int(task.id.rpartition("/")[2]) for task in iterate(source(train=size), "train", limit, start)]

    assert indices(4) == [0, 1, 2, 3]
    assert indices(4, start=1) == [1, 2, 3]
    assert indices(4, limit=2) == [0, 1]
    assert indices(4, limit=9, start=2) == [2, 3]
    assert indices(4, limit=0) == []
    assert indices(None, limit=2, start=5) == [5, 6]
    assert "pass a limit" in refusal(indices, None, raises=TaskError)


def test_a_task_list_refuses_duplicates_and_emptiness():
    twin = Task("twin", "test", TASK.prompt, TASK.difficulty, TASK.data, TASK.gold, TASK.tags)
    assert "'t/train/0' (train) and 'twin' (test)" in refusal(TaskList, [TASK, twin], raises=TaskError)
    assert "'t/train/0' appears twice" in refusal(TaskList, [TASK, TASK], raises=TaskError)
    assert "at least one task" in refusal(TaskList, [], raises=TaskError)


# Manifests.


def test_a_manifest_pins_tasks_exactly_in_their_order(tmp_path: Path):
    path = tmp_path / "suite.jsonl"
    odd = Task("t", "train", "one\u2028two\x85three\nfour\x0bfive")
    tasks = [TASK, odd, *(generate("train", index) for index in (3, 1, 2)), *iterate(source(), "test")]
    write_manifest(path, tasks)
    manifest = read_manifest(path)
    assert [*iterate(manifest, "train"), *iterate(manifest, "test")] == tasks
    path.write_text(path.read_text(encoding="utf-8").replace('"là"', '"ici"'), encoding="utf-8")
    with pytest.raises(TaskError, match="was changed"):
        read_manifest(path)


BROKEN_LINES = (
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
)


def test_an_invalid_manifest_line_is_named_by_number(tmp_path: Path):
    path = tmp_path / "suite.jsonl"
    write_manifest(path, [TASK])
    first = path.read_text(encoding="utf-8")

    def read(text: str) -> object:
        path.write_text(text + "\n", encoding="utf-8")
        return read_manifest(path)

    assert not_refused(read, [(first + line, "suite.jsonl:2: not a task") for line in BROKEN_LINES]) == []
    assert not_refused(read, [(line, "suite.jsonl:1: not a task") for line in ("nonsense", "{}")]) == []
