"""Spider- and BIRD-style folders as task sources."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from agentgym.envs.sql import SQLEnv
from agentgym.errors import TaskError, UsageError
from agentgym.task import Task, iterate
from agentgym.tasks.sql.files import SpiderTasks

FOLDER = Path(__file__).parent / "data" / "spider_style"


def every_task(source: SpiderTasks) -> list[Task]:
    return [task for split in source.splits for task in iterate(source, split)]


def folder_with(folder: Path, *questions: object, name: str = "train.json") -> Path:
    shutil.copytree(FOLDER / "database", folder / "database")
    if questions:
        (folder / name).write_text(json.dumps(list(questions)), encoding="utf-8")
    return folder


def counts(source: SpiderTasks) -> dict[str, int]:
    """How many questions were left out, by reason."""
    return Counter(entry.why.value for entry in source.left_out)


def question(**fields: object) -> dict[str, object]:
    return {"db_id": "lab", "question": "How many samples?", "query": "SELECT count(*) FROM samples"} | fields


def test_questions_of_both_styles_are_read():
    source = SpiderTasks(FOLDER)
    assert source.splits == ("train", "validation")
    spider, bird = source.find("train_questions/0"), source.find("dev/100")
    assert spider.prompt == "How many books are there?"
    assert spider.gold == {"sql": "SELECT count(*) FROM books", "ordered": False}
    assert bird.prompt.endswith("\nHint: mean refers to AVG(value)")
    assert (bird.split, bird.difficulty) == ("validation", 2)


def test_order_is_asked_for_where_the_outer_query_orders():
    source = SpiderTasks(FOLDER)
    assert source.find("train_questions/1").gold["ordered"]
    assert not source.find("train_questions/3").gold["ordered"]


def test_degenerate_questions_are_left_out_unless_wanted():
    source = SpiderTasks(FOLDER)
    with pytest.raises(TaskError):
        source.find("dev/103")
    assert (counts(source), "1 of 15 entries are left out (1 degenerate)" in source.description) == (
        {"degenerate": 1},
        True,
    )
    kept = SpiderTasks(FOLDER, keep_degenerate=True)
    assert "degenerate" in kept.find("dev/103").tags
    assert (kept.left_out, "left out" in kept.description) == ((), False)
    assert SQLEnv(folder=FOLDER, keep_degenerate=True).tasks.find("dev/103")
    with pytest.raises(UsageError, match=r"keep_degenerate=\.\.\. is for tasks from files; pass folder="):
        SQLEnv(keep_degenerate=True)


GUESSED = {
    "no row": "SELECT name FROM (SELECT 'x' AS name) WHERE name = 'y'",
    "no sample": "SELECT sample_id FROM samples WHERE species = 'unicorn'",
    "null": "SELECT max(sample_id) FROM samples WHERE species = 'unicorn'",
    "zero": "SELECT count(*) FROM samples WHERE species = 'unicorn'",
    "zero with a fraction": "SELECT sum(0.0) FROM samples",
    "one": "SELECT count(*) > 0 FROM samples",
    "constant": "SELECT 1",
    "empty text": "SELECT ''",
    "zero and null": "SELECT count(*), max(sample_id) FROM samples WHERE species = 'unicorn'",
    "many nulls": "SELECT NULL FROM samples",
}
TOLD = {
    "number": "SELECT count(*) + 1 FROM samples",
    "names": "SELECT DISTINCT species FROM samples",
    "two rows of one": "SELECT 1 FROM samples",
    "a name and one": "SELECT species, 1 FROM samples LIMIT 1",
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def named_questions(golds: Mapping[str, str]) -> list[object]:
    return [question(id=name, question=f"What is {name}?", query=sql) for name, sql in golds.items()]


def test_what_the_gold_returns_decides_which_questions_are_degenerate(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", *named_questions(GUESSED | TOLD))
    source = SpiderTasks(folder)
    assert {task.id for task in every_task(source)} == {f"train/{name}" for name in TOLD}
    assert counts(source) == {"degenerate": len(GUESSED)}
    every = every_task(SpiderTasks(folder, keep_degenerate=True))
    assert {task.id for task in every if "degenerate" in task.tags} == {f"train/{name}" for name in GUESSED}


EMPTY_OR_CONSTANT = (
    *("SELECT 1 WHERE 0", "SELECT 0", "SELECT 1", "SELECT NULL", "SELECT 0, NULL", "SELECT ''"),
    *("0", "1", "NULL", "none", "false", "true", "''"),
)


def test_no_question_that_is_kept_is_answered_by_an_empty_or_constant_answer(tmp_path: Path, cache: Path):
    for folder in (FOLDER, folder_with(tmp_path / "data", *named_questions(GUESSED | TOLD))):
        env = SQLEnv(folder=folder)
        assert isinstance(env.tasks, SpiderTasks)
        for task in every_task(env.tasks):
            for answer in EMPTY_OR_CONSTANT:
                env.reset(options={"task": task})
                call = {"function": {"name": "submit", "arguments": {"answer": answer}}}
                step = env.step({"role": "assistant", "tool_calls": [call]})
                assert not step.info.get("is_success"), (task, answer)
        env.close()


def test_a_folder_of_nothing_but_degenerate_questions_says_so(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", *named_questions(GUESSED))
    with pytest.raises(UsageError, match=r"answers all 10 questions of .*; keep them with keep_degenerate=true"):
        SpiderTasks(folder)


def test_gold_queries_are_run_once_for_a_database_file(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", *named_questions(GUESSED | TOLD))
    SpiderTasks(folder)
    [verdicts] = cache.rglob("*.json")
    verdicts.write_text(json.dumps(dict.fromkeys(json.loads(verdicts.read_text()), None)), encoding="utf-8")
    assert SpiderTasks(folder).left_out == ()
    verdicts.write_text("{", encoding="utf-8")
    assert counts(SpiderTasks(folder)) == {"degenerate": len(GUESSED)}
    for database in (folder / "database").rglob("*.sqlite"):
        os.utime(database, ns=(0, 0))
    verdicts.write_text(json.dumps(dict.fromkeys([*GUESSED.values(), *TOLD.values()], None)), encoding="utf-8")
    assert counts(SpiderTasks(folder)) == {"degenerate": len(GUESSED)}


FAULTS = {
    "nowhere": (None, "there is no database file for db_id 'nowhere'"),
    "broken": (b"no database at all, but long enough to be read" * 50, "cannot open database"),
    "empty": (b"", r"empty\.sqlite' is empty \(0 bytes\)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_database_that_cannot_be_used_costs_its_own_questions_alone(tmp_path: Path, cache: Path, name: str):
    content, said = FAULTS[name]
    folder = folder_with(tmp_path / "data", question(db_id=name), question())
    if content is not None:
        (folder / "database" / f"{name}.sqlite").write_bytes(content)
    source = SpiderTasks(folder)
    assert [task.id for task in every_task(source)] == ["train/1"]
    assert re.search(r"train\.json: item 0: .*" + said, str(source.left_out[0]))
    with pytest.raises(UsageError, match=said):
        SpiderTasks(folder, strict=True)


def test_a_database_without_tables_is_told_once_for_its_questions(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", question(db_id="bare"), question())
    with closing(sqlite3.connect(folder / "database" / "bare.sqlite")) as database:
        database.execute("CREATE TABLE gone (x)")
        database.execute("DROP TABLE gone")
        database.commit()
    (entry,) = SpiderTasks(folder).left_out
    assert "has no table" in entry.reason


def test_a_gold_query_that_fails_is_left_out_with_what_the_engine_says(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", question(query="SELECT nothing FROM samples"), question())
    (entry,) = SpiderTasks(folder).left_out
    assert re.fullmatch(r"its gold query fails: .*nothing.*", entry.reason)


@pytest.mark.parametrize("field", ["question", "query", "db_id"])
@pytest.mark.parametrize("value", [None, "", " ", 7, []])
def test_a_question_without_its_text_is_left_out(tmp_path: Path, cache: Path, field: str, value: object):
    folder = folder_with(tmp_path / "data", question(**{field: value}), question())
    (entry,) = SpiderTasks(folder).left_out
    assert f"item 0: no text under '{'gold_sql' if field == 'query' else field}'" in str(entry)


def test_null_stands_for_a_field_that_is_not_there(tmp_path: Path, cache: Path):
    nothing = {"id": None, "question_id": None, "evidence": None, "difficulty": None, "order_matters": None}
    folder = folder_with(tmp_path / "data", question(query="SELECT species FROM samples ORDER BY species") | nothing)
    (task,) = every_task(SpiderTasks(folder))
    assert (task.id, task.gold["ordered"], task.prompt) == ("train/0", True, "How many samples?")


def test_questions_with_one_id_are_told_apart_by_leaving_one_out(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path / "data", question(id=1), question(id=1, question="How many are there?"))
    source = SpiderTasks(folder)
    assert len(every_task(source)) == 1
    assert "its id 'train/1' is that of" in source.left_out[0].reason


def test_databases_behind_links_are_played(tmp_path: Path, cache: Path):
    real = folder_with(tmp_path / "real", question())
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "database").symlink_to(real / "database", target_is_directory=True)
    (linked / "train.json").symlink_to(real / "train.json")
    (linked / "to_nowhere.json").symlink_to(real / "nothing.json")
    (tmp_path / "whole").symlink_to(linked, target_is_directory=True)
    for folder in (linked, tmp_path / "whole"):
        env = SQLEnv(folder=folder)
        env.reset(seed=0)
        call = {"function": {"name": "submit", "arguments": {"answer": question()["query"]}}}
        assert env.step({"role": "assistant", "tool_calls": [call]}).info["is_success"]
        env.close()


def test_an_empty_test_file_does_not_turn_training_questions_into_test_questions(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path, *(question(question=f"{n}?") for n in range(50)))
    (folder / "test.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match=r"test\.json: the file holds no entry"):
        SpiderTasks(folder)


def test_files_that_hold_no_questions_are_passed_over_and_named(tmp_path: Path, cache: Path):
    folder = folder_with(tmp_path, question())
    for name, content in (("info.json", {"version": 1}), ("notes.json", []), ("columns.json", [{"name": "id"}])):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    source = SpiderTasks(folder, strict=True)
    assert len(every_task(source)) == 1
    assert sorted(Path(entry.where).name for entry in source.left_out) == ["columns.json", "info.json", "notes.json"]


def test_a_folder_with_nothing_but_a_dev_file_is_played_in_its_one_split(tmp_path: Path, cache: Path):
    env = SQLEnv(folder=folder_with(tmp_path, question(), name="dev.json"))
    assert (env.tasks.splits, env.split) == (("validation",), "validation")
    env.reset(seed=0)
    env.close()


def test_the_layout_of_kaggle_dbqa_is_read_with_its_own_division(tmp_path: Path, cache: Path):
    few = [question(question=f"few {n}", query=f"SELECT {n} FROM samples") for n in range(3)]
    asked = [question(question=f"asked {n}", query=f"SELECT {n} FROM samples") for n in range(5)]
    shutil.copytree(FOLDER / "database", tmp_path / "databases")
    (tmp_path / "examples").mkdir()
    (tmp_path / "KaggleDBQA_tables.json").write_text(json.dumps([{"db_id": "lab"}]), encoding="utf-8")
    for name, questions in (("lab", [*asked, *few]), ("lab_fewshot", few), ("lab_test", asked)):
        (tmp_path / "examples" / f"{name}.json").write_text(json.dumps(questions), encoding="utf-8")
    source = SpiderTasks(tmp_path, keep_degenerate=True)
    assert {split: source.size(split) for split in source.splits} == {"train": 3, "test": 5}
    assert {task.prompt.split()[0] for task in iterate(source, "test")} == {"asked"}
    assert counts(source) == {"repeated": 8}


def test_tasks_name_the_database_without_any_path_of_this_machine():
    for task in every_task(SpiderTasks(FOLDER)):
        assert str(FOLDER.parent) not in json.dumps(task.to_dict())


def test_every_gold_query_passes_the_grader():
    env = SQLEnv(folder=FOLDER, solution_style="direct")
    assert isinstance(env.tasks, SpiderTasks)
    for task in every_task(env.tasks):
        env.reset(options={"task": task})
        call = next(env.solution(task))
        assert not isinstance(call, str)
        assert env.step({"role": "assistant", "tool_calls": [call.to_dict()]}).info["is_success"], task.id
    env.close()


def test_databases_of_the_unseen_split_are_in_no_other():
    source = SpiderTasks(FOLDER, unseen=0.65)
    seen = {task.data["file"] for task in every_task(source) if task.split != "test_unseen"}
    unseen = {task.data["file"] for task in iterate(source, "test_unseen")}
    assert unseen
    assert not seen & unseen


def test_splits_by_hash_keep_one_query_in_one_split(tmp_path: Path):
    questions = [
        question(question=f"{say} {n}?", query=f"SELECT {n} FROM samples") for n in range(60) for say in ("What", "How")
    ]
    source = SpiderTasks(folder_with(tmp_path, *questions), split_by="hash")
    assert source.splits == ("train", "validation", "test")
    of = {split: {task.gold["sql"] for task in iterate(source, split)} for split in source.splits}
    assert not of["train"] & (of["validation"] | of["test"])
    assert not of["validation"] & of["test"]


def test_a_repeated_question_is_asked_once(tmp_path: Path):
    assert len(every_task(SpiderTasks(folder_with(tmp_path, question(), question())))) == 1


def test_duckdb_files_are_read_and_queried(tmp_path: Path):
    (tmp_path / "databases").mkdir()
    with duckdb.connect(tmp_path / "databases" / "shop.duckdb") as connection:
        connection.execute("CREATE TABLE items AS SELECT range AS id, 'item ' || range AS name FROM range(5)")
    asked = question(db_id="shop", question="How many?", query="SELECT count(*) FROM items")
    (tmp_path / "test.jsonl").write_text(json.dumps(asked), encoding="utf-8")
    env = SQLEnv(folder=tmp_path, split="test")
    env.reset(seed=0)
    call = {"function": {"name": "submit", "arguments": {"answer": "FROM items SELECT count(id)"}}}
    assert env.step({"role": "assistant", "tool_calls": [call]}).info["is_success"]
    env.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"db_id": "lab"}]', "train.json: item 0: no text under 'gold_sql' or 'query'"),
        ('[{"db_id": "mars", "question": "?", "query": "SELECT 1"}]', "no database file for db_id 'mars'"),
        ('{"db_id": "lab"}', r"train.json: expected a list of entries, not one object with \['db_id'\]"),
        ("[1]", "train.json: item 0: an entry must be an object, not a number"),
        ("[{]", "train.json: not JSON"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, text: str, told: str):
    folder_with(tmp_path)
    (tmp_path / "train.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        SpiderTasks(tmp_path)


def test_a_broken_line_of_json_lines_is_left_out_with_its_number(tmp_path: Path, cache: Path):
    folder_with(tmp_path)
    (tmp_path / "dev.jsonl").write_text(f"{json.dumps(question())}\n{{nope\n", encoding="utf-8")
    (entry,) = SpiderTasks(tmp_path).left_out
    assert str(entry).startswith(f"{tmp_path / 'dev.jsonl'}:2: not JSON")
    with pytest.raises(UsageError, match=r"dev\.jsonl:2: not JSON"):
        SpiderTasks(tmp_path, strict=True)


def test_a_folder_without_questions_says_what_is_missing(tmp_path: Path):
    with pytest.raises(UsageError, match="no question file"):
        SpiderTasks(tmp_path)
    with pytest.raises(UsageError, match="there is no file or folder"):
        SpiderTasks(tmp_path / "nowhere")
    (tmp_path / "train.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="is a file; name the folder"):
        SpiderTasks(tmp_path / "train.json")


def test_a_task_cannot_reach_a_file_outside_the_folder(tmp_path: Path):
    source = SpiderTasks(folder_with(tmp_path / "inside", question()))
    (tmp_path / "secret.sqlite").touch()
    with pytest.raises(TaskError):
        source.database_file(Task("x", "train", "?", data={"file": "../secret.sqlite", "dialect": "sqlite"}))
