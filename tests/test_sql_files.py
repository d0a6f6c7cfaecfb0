"""Spider- and BIRD-style folders as task sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from agentgym.envs.sql import SQLEnv
from agentgym.errors import TaskError, UsageError
from agentgym.task import Task, iterate
from agentgym.tasks.sql_files import SpiderTasks

FOLDER = Path(__file__).parent / "data" / "spider_style"


def every_task(source: SpiderTasks) -> list[Task]:
    return [task for split in source.splits for task in iterate(source, split)]


def folder_with(folder: Path, *questions: object, name: str = "train.json") -> Path:
    shutil.copytree(FOLDER / "database", folder / "database")
    (folder / name).write_text(json.dumps(list(questions)), encoding="utf-8")
    return folder


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
    with pytest.raises(TaskError):
        SpiderTasks(FOLDER).find("dev/103")
    assert SpiderTasks(FOLDER, keep_degenerate=True).find("dev/103")


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
        ('{"db_id": "lab"}', "train.json: a question file holds a list, not dict"),
        ("[1]", "train.json: item 0: a question is an object, not int"),
        ("[{]", "train.json: not JSON"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, text: str, told: str):
    folder_with(tmp_path)
    (tmp_path / "train.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="(?s)" + told.replace("[", r"\[")):
        SpiderTasks(tmp_path)


def test_a_broken_line_of_json_lines_is_named_with_its_number(tmp_path: Path):
    folder_with(tmp_path)
    (tmp_path / "dev.jsonl").write_text(f"{json.dumps(question())}\n{{nope\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"dev\.jsonl:2: not JSON"):
        SpiderTasks(tmp_path)


def test_a_folder_without_questions_says_what_is_missing(tmp_path: Path):
    with pytest.raises(UsageError, match="no question file"):
        SpiderTasks(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        SpiderTasks(tmp_path / "nowhere")


def test_a_task_cannot_reach_a_file_outside_the_folder(tmp_path: Path):
    source = SpiderTasks(folder_with(tmp_path / "inside", question()))
    (tmp_path / "secret.sqlite").touch()
    with pytest.raises(TaskError):
        source.database_file(Task("x", "train", "?", data={"file": "../secret.sqlite", "dialect": "sqlite"}))
