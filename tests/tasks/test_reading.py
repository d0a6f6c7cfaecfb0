"""Files of entries: formats, broken entries and splits, for all sources of tasks from files; GSM8K is the example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym.core.task import iterate
from agentgym.core.task_files import Why
from agentgym.tasks.code.files import CodeFileTasks
from tests.refusals import refusal
from tests.tasks.entries import GSM8K, every_task, write_entries

GOOD = json.dumps(GSM8K).encode()


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in numbers]


BROKEN_LINES = {
    b"{not json": "not JSON",
    b'{"question": null, "answer": "#### 1"}': "no text under 'question'",
    b'{"question": "caf\xe9?", "answer": "#### 1"}': "not UTF-8 text",
}


def test_a_broken_line_is_left_out_with_its_place_and_reason(tmp_path: Path):
    file = tmp_path / "data.jsonl"
    for line, words in BROKEN_LINES.items():
        file.write_bytes(GOOD + b"\n" + line + b"\n")
        source = CodeFileTasks(file)
        assert [task.id for task in every_task(source)] == ["gsm8k/data/1"]
        (entry,) = source.left_out
        assert (entry.where, entry.why) == (f"{file}:2", Why.BROKEN)
        assert words in entry.reason
        assert f"data.jsonl:2: {words}" in refusal(CodeFileTasks, file, strict=True)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_missing_values_in_every_format(tmp_path: Path, value: str):
    unused = GOOD[:-1] + f', "unused": {value}, "inside": [{value}]}}'.encode()
    used = GOOD.replace(json.dumps(GSM8K["answer"]).encode(), value.encode())
    for name, content in (
        ("data.jsonl", unused + b"\n" + used + b"\n"),
        ("data.json", b"[" + unused + b"," + used + b"]"),
    ):
        (tmp_path / name).write_bytes(content)
        source = CodeFileTasks(tmp_path / name)
        assert [task.prompt for task in every_task(source)] == [GSM8K["question"]], name
        assert ["no text under 'answer'" in entry.reason for entry in source.left_out] == [True], name


UNREADABLE = {
    '[{"question": "café?"}]'.encode("latin-1"): "data.json:1: not UTF-8 text (byte 0xe9); convert",
    b"[": "data.json: not JSON",
    b'{"data": []}': "data.json: expected a list of entries, not one object with ['data']",
    b"PAR1 and no more": "data.json: cannot be read as Parquet",
}


def test_an_unreadable_file_is_refused_in_one_line(tmp_path: Path):
    file = tmp_path / "data.json"
    for content, words in UNREADABLE.items():
        file.write_bytes(content)
        message = refusal(CodeFileTasks, file)
        assert words in message
        assert "\n" not in message


def test_lists_byte_order_marks_and_parquet_are_read(tmp_path: Path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps([GSM8K, None]), encoding="utf-8")
    source = CodeFileTasks(file)
    assert [entry.where for entry in source.left_out] == [f"{file}: item 1"]
    assert len(every_task(source)) == 1
    (tmp_path / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD)
    assert len(every_task(CodeFileTasks(tmp_path / "marked.jsonl", strict=True))) == 1
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "main").mkdir()
    table = pytest.importorskip("pyarrow").Table.from_pylist([GSM8K])
    parquet.write_table(table, tmp_path / "main" / "test-00000-of-00001.parquet")
    source = CodeFileTasks(tmp_path / "main")
    assert (source.splits, source.size("test")) == (("test",), 1)


def test_files_named_like_splits_are_the_splits_without_repeats(tmp_path: Path):
    write_entries(tmp_path, *numbered(1, 2), name="train.jsonl")
    write_entries(tmp_path, *numbered(1, 3), name="test.jsonl")
    source = CodeFileTasks(tmp_path)
    assert {split: source.size(split) for split in source.splits} == {"train": 2, "test": 1}
    (twin,) = source.left_out
    assert (twin.where, twin.why) == (f"{tmp_path / 'test.jsonl'}:1", Why.REPEATED)


def test_one_file_is_split_by_content_in_any_order_of_its_entries(tmp_path: Path):
    entries = numbered(*range(300))
    source = CodeFileTasks(write_entries(tmp_path, *entries))
    twin = CodeFileTasks(write_entries(tmp_path, *entries[::-1]))
    assert set(source.splits) == {"train", "validation", "test"}
    assert source.size("train") > 200
    for split in source.splits:
        assert {task.prompt for task in iterate(source, split)} == {task.prompt for task in iterate(twin, split)}
    assert CodeFileTasks(write_entries(tmp_path, *entries), split_by="test").splits == ("test",)
    assert "validation" in refusal(CodeFileTasks, write_entries(tmp_path, *entries), split_by="dev")


def test_an_empty_test_file_does_not_turn_training_tasks_into_test_tasks(tmp_path: Path):
    write_entries(tmp_path, *numbered(*range(50)), name="train.jsonl")
    (tmp_path / "test.jsonl").write_text("", encoding="utf-8")
    assert "test.jsonl: the file holds no entry" in refusal(CodeFileTasks, tmp_path)
