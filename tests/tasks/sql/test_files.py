"""Spider- and BIRD-style folders as task sources."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import Task, iterate
from agentgym.envs.sql import SQLEnv
from agentgym.tasks.sql.files import SpiderTasks
from tests.played import call, play_solution
from tests.refusals import refusal

FOLDER = Path(__file__).parents[2] / "data" / "spider_style"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def every_task(source: SpiderTasks) -> list[Task]:
    return [task for split in source.splits for task in iterate(source, split)]


def folder_with(folder: Path, *questions: object) -> Path:
    """Write a folder with the two databases and these questions, replacing an earlier one."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER / "database", folder / "database")
    (folder / "train.json").write_text(json.dumps(list(questions)), encoding="utf-8")
    return folder


def counts(source: SpiderTasks) -> dict[str, int]:
    """Return the number of left-out questions by reason."""
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
    # Order counts where the outer query orders.
    assert source.find("train_questions/1").gold["ordered"]
    assert not source.find("train_questions/3").gold["ordered"]
    for task in every_task(source):
        assert str(FOLDER.parent) not in json.dumps(task.to_dict()), "a task names no path of this machine"


@pytest.mark.parametrize("engine", [None, "duckdb"])
def test_every_gold_query_passes_the_grader(engine: Any):
    env = SQLEnv(folder=FOLDER, engine=engine, solution_style="direct")
    assert isinstance(env.tasks, SpiderTasks)
    for task in every_task(env.tasks):
        opening, _ = env.reset(options={"task": task})
        assert "The database runs on " in str(opening[-1].get("content"))
        assert play_solution(env).info["is_success"], task.id


DEGENERATE = {
    "no sample": "SELECT sample_id FROM samples WHERE species = 'unicorn'",
    "null": "SELECT max(sample_id) FROM samples WHERE species = 'unicorn'",
    "zero": "SELECT count(*) FROM samples WHERE species = 'unicorn'",
    "one": "SELECT count(*) > 0 FROM samples",
    "constant": "SELECT 1",
    "zero and null": "SELECT count(*), max(sample_id) FROM samples WHERE species = 'unicorn'",
    "many nulls": "SELECT NULL FROM samples",
}
SOUND = {
    "number": "SELECT count(*) + 1 FROM samples",
    "names": "SELECT DISTINCT species FROM samples",
    "a name and one": "SELECT species, 1 FROM samples LIMIT 1",
}
EMPTY_OR_CONSTANT = (
    *("SELECT 1 WHERE 0", "SELECT 0", "SELECT 1", "SELECT NULL", "SELECT 0, NULL", "SELECT ''"),
    *("0", "1", "NULL", "none", "false", "true", "''"),
)


def named_questions(golds: Mapping[str, str]) -> list[object]:
    return [question(id=name, question=f"What is {name}?", query=sql) for name, sql in golds.items()]


def test_degenerate_questions_are_left_out_unless_asked_for(tmp_path: Path):
    folder = folder_with(tmp_path / "data", *named_questions(DEGENERATE | SOUND))
    source = SpiderTasks(folder)
    assert {task.id for task in every_task(source)} == {f"train/{name}" for name in SOUND}
    assert counts(source) == {"degenerate": len(DEGENERATE)}
    every = every_task(SpiderTasks(folder, keep_degenerate=True))
    assert {task.id for task in every if "degenerate" in task.tags} == {f"train/{name}" for name in DEGENERATE}
    with pytest.raises(UsageError, match=r"all 7 questions of .*keep_degenerate=true"):
        SpiderTasks(folder_with(tmp_path / "data", *named_questions(DEGENERATE)))


def test_empty_and_constant_answers_solve_no_remaining_question(tmp_path: Path):
    for folder in (FOLDER, folder_with(tmp_path / "data", *named_questions(DEGENERATE | SOUND))):
        env = SQLEnv(folder=folder)
        assert isinstance(env.tasks, SpiderTasks)
        for task in every_task(env.tasks):
            for answer in EMPTY_OR_CONSTANT:
                env.reset(options={"task": task})
                assert not call(env, "submit", answer=answer).info.get("is_success"), (task, answer)


def test_a_broken_question_is_left_out_with_its_place_and_reason(tmp_path: Path):
    broken: list[tuple[dict[str, object], str]] = [
        ({"db_id": "nowhere"}, "no database file for db_id 'nowhere'"),
        ({"db_id": "broken"}, "cannot open database"),
        ({"query": "SELECT nothing FROM samples"}, "its gold query fails: "),
        ({"question": None}, "no text under 'question'"),
        ({"query": None}, "no text under 'gold_sql'"),
        ({"db_id": None}, "no text under 'db_id'"),
    ]
    folder = folder_with(tmp_path / "data", *(question(**fields) for fields, _ in broken), question())
    (folder / "database" / "broken.sqlite").write_bytes(b"no database at all, but long enough to be read" * 50)
    source = SpiderTasks(folder)
    assert [task.id for task in every_task(source)] == [f"train/{len(broken)}"]
    places = {int(entry.where.rpartition(" ")[2]): str(entry) for entry in source.left_out}
    texts = [(places.get(number, ""), words) for number, (_, words) in enumerate(broken)]
    assert [row for row in texts if row[1] not in row[0] or "train.json: item " not in row[0]] == []
    assert "train.json: item 0: the folder has no database file" in refusal(SpiderTasks, folder, strict=True)


def test_databases_of_the_unseen_split_are_in_no_other_split():
    source = SpiderTasks(FOLDER, unseen=0.65)
    files = {task.data["file"] for task in every_task(source) if task.split != "test_unseen"}
    unseen = {task.data["file"] for task in iterate(source, "test_unseen")}
    assert unseen
    assert not files & unseen


def test_splits_by_hash_have_no_query_in_common(tmp_path: Path):
    questions = [
        question(question=f"{say} {n}?", query=f"SELECT {n} FROM samples") for n in range(60) for say in ("What", "How")
    ]
    source = SpiderTasks(folder_with(tmp_path / "data", *questions), split_by="hash")
    assert source.splits == ("train", "validation", "test")
    queries = [{task.gold["sql"] for task in iterate(source, split)} for split in source.splits]
    assert sum(map(len, queries)) == len(set.union(*queries))


def test_a_task_cannot_reach_a_file_outside_the_folder(tmp_path: Path):
    source = SpiderTasks(folder_with(tmp_path / "inside", question()))
    (tmp_path / "secret.sqlite").touch()
    with pytest.raises(TaskError):
        source.database_file(Task("x", "train", "?", data={"file": "../secret.sqlite", "dialect": "sqlite"}))
