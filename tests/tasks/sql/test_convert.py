"""SQLite databases and queries converted to DuckDB."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import iterate
from agentgym.core.task_files import Why
from agentgym.envs.sql import SQLEnv
from agentgym.tasks.sql.convert import convert, to_duckdb
from agentgym.tasks.sql.files import SpiderTasks
from agentgym.tools.database import ForeignKey, open_file

FOLDER = Path(__file__).parents[2] / "data" / "spider_style"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    path = tmp_path / "zoo.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            CREATE TABLE animals (id INTEGER PRIMARY KEY, kind TEXT, name TEXT, weight REAL, born TEXT, keeper INTEGER
                                  REFERENCES show, note);
            CREATE TABLE show (id INTEGER PRIMARY KEY, "order" TEXT, seats TEXT);
            CREATE TABLE odd (id INTEGER PRIMARY KEY, name TEXT REFERENCES animals (id));
            CREATE TABLE bare ("" TEXT);
            INSERT INTO show VALUES (1, 'first', 20), (2, 'second', 'many');
            INSERT INTO animals VALUES (1, 'cat', 'Ada', 4, '2020-01-02', 1, 7), (2, 'cat', 'Bo', 5.5, NULL, 1, 'x'),
                                       (3, 'dog', 'Cy', 20, '2021-03-04', 2, NULL);
            INSERT INTO odd VALUES (1, 'nobody');
            """
        )
    return path


def test_the_copy_has_the_tables_rows_and_keys(zoo: Path):
    copy, _ = convert(zoo, [])
    with open_file(copy, "duckdb") as database:
        assert set(database.tables()) == {"show", "animals", "odd"}
        animals = database.describe("animals")
        assert (animals.primary_key, animals.row_count) == ("id", 3)
        assert animals.foreign_keys == (ForeignKey("keeper", "show", "id"),)
        types = [column.type for column in animals.columns]
        assert types == ["BIGINT", "VARCHAR", "VARCHAR", "DOUBLE", "VARCHAR", "BIGINT", "VARCHAR"]
        # A key that SQLite does not enforce is not declared.
        assert database.describe("odd").foreign_keys == ()
        assert database.query('SELECT seats FROM "show" ORDER BY id').rows == (("20",), ("many",))


SAME_MEANING = (
    "SELECT count(*) FROM animals",
    'SELECT name FROM animals WHERE kind = "cat"',
    "SELECT name FROM animals WHERE name LIKE 'a%'",
    'SELECT "order" FROM show WHERE id = 2',
    "SELECT kind, count(*) FROM animals GROUP BY kind ORDER BY count(*) DESC",
    "SELECT T1.name, T2.[order] FROM animals AS T1 JOIN show AS T2 ON T1.keeper = T2.id GROUP BY T1.id",
    "SELECT T2.id, T2.[order], count(*) FROM animals T1 JOIN show T2 ON T1.keeper = T2.id GROUP BY T1.keeper",
    "SELECT name, max(weight) FROM animals",
    "SELECT kind, name, min(weight) FROM animals GROUP BY kind HAVING count(*) > 1",
    "SELECT kind FROM animals GROUP BY kind ORDER BY max(weight) DESC LIMIT 1",
    "SELECT kind AS k, avg(weight) FROM animals GROUP BY k",
    "SELECT kind, avg(weight) FROM animals GROUP BY 1",
    "SELECT name FROM animals WHERE weight > (SELECT avg(weight) FROM animals)",
    "SELECT name FROM animals WHERE id NOT IN (SELECT keeper FROM animals WHERE kind = 'dog')",
    "SELECT kind FROM animals EXCEPT SELECT kind FROM animals WHERE weight > 10",
    "SELECT substr(born, 1, 4) FROM animals WHERE born IS NOT NULL",
)
OTHER_MEANING = {
    "SELECT avg(note) FROM animals": "it fails in DuckDB: Binder Error",
    "SELECT 7 / 2 FROM animals": "it returns other rows in DuckDB",
    "SELECT nothing FROM animals": "it fails in SQLite: ",
    "SELECT name FROM animals WHERE (": "it cannot be read as SQLite's: ",
    'SELECT "" FROM bare': "it fails in DuckDB: ",
}


def test_queries_are_converted_only_if_they_return_the_same_rows(zoo: Path):
    copy, conversions = convert(zoo, [*SAME_MEANING, *OTHER_MEANING])
    assert {sql: conversions[sql].problem for sql in SAME_MEANING if conversions[sql].problem} == {}
    with open_file(zoo, "sqlite") as source, open_file(copy, "duckdb") as target:
        # A later release of a library may convert more of them.
        for sql in (sql for sql in conversions if conversions[sql].sql is not None):
            assert sorted(target.query(str(conversions[sql].sql)).rows) == sorted(source.query(sql).rows), sql
    problems = {sql: conversions[sql].problem for sql in OTHER_MEANING if conversions[sql].sql is None}
    assert {sql: text for sql, text in problems.items() if not text.startswith(OTHER_MEANING[sql])} == {}
    assert not any("\n" in text for text in problems.values())


def test_double_quoted_words_that_are_not_names_become_strings():
    names = frozenset({"animals", "name", "kind"})
    assert to_duckdb('SELECT name FROM animals WHERE kind = "cat"', names).endswith("\"kind\" = 'cat'")
    assert to_duckdb('SELECT name FROM animals WHERE "Kind" = 1', names).endswith('"Kind" = 1')


def test_copies_and_verdicts_are_cached(zoo: Path, tmp_path: Path):
    sql = "SELECT count(*) FROM animals"
    copy, _ = convert(zoo, [sql])
    stamp = copy.stat().st_mtime_ns
    [notes] = (tmp_path / "cache").rglob("*.json")
    notes.write_text(json.dumps({sql: [None, "known from before"]}))
    again, conversions = convert(zoo, [sql])
    assert (again, again.stat().st_mtime_ns, conversions[sql].problem) == (copy, stamp, "known from before")


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path):
    (tmp_path / "x.sqlite").write_bytes(b"no database at all, but long enough to be read" * 50)
    with pytest.raises(UsageError, match=r"x\.sqlite"):
        convert(tmp_path / "x.sqlite", [])


def test_questions_of_a_folder_are_converted_or_left_out():
    source, plain = SpiderTasks(FOLDER, engine="duckdb"), SpiderTasks(FOLDER)
    tasks = [task for split in source.splits for task in iterate(source, split)]
    unsupported = [entry for entry in source.left_out if entry.why is Why.UNSUPPORTED]
    assert all("cannot be converted: " in entry.reason for entry in unsupported)
    assert len(tasks) + len(unsupported) == sum(plain.size(split) for split in plain.splits)
    assert len(tasks) > 10
    assert {task.data["dialect"] for task in tasks} == {"duckdb"}


def test_a_query_that_cannot_be_converted_is_left_out_with_its_place(tmp_path: Path):
    shutil.copytree(FOLDER / "database", tmp_path / "database")
    question = {"db_id": "lab", "question": "?", "query": "SELECT count(*) + 1 FROM samples"}
    other = question | {"query": "SELECT strftime('%J', '2020-01-01') FROM samples"}
    (tmp_path / "train.json").write_text(json.dumps([question, other]))
    source = SpiderTasks(tmp_path, engine="duckdb", split_by="train", strict=True)
    assert source.size("train") == 1
    (entry,) = source.left_out
    assert (entry.where, entry.why) == (f"{tmp_path / 'train.json'}: item 1", Why.UNSUPPORTED)
    assert "its gold query cannot be converted: it " in entry.reason


def test_engines_that_do_not_fit_a_folder_or_task_are_refused():
    with pytest.raises(TaskError, match="engine=duckdb"):
        SpiderTasks(FOLDER).database_file(SpiderTasks(FOLDER, engine="duckdb").get("train", 0))
    with pytest.raises(UsageError, match="duckdb, sqlite, not 'mixed'"):
        SQLEnv(folder=FOLDER, engine="mixed")
    assert SQLEnv(folder=FOLDER, engine="sqlite").tasks.splits == SpiderTasks(FOLDER).splits
