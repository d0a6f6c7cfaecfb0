"""SQLite databases and queries converted to DuckDB."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentgym.tasks.sql.convert import convert
from agentgym.tools.database import ForeignKey, open_file


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
    "SELECT T2.id, T2.[order], count(*) FROM animals T1 JOIN show T2 ON T1.keeper = T2.id GROUP BY T1.keeper",
    "SELECT name, max(weight) FROM animals",
    "SELECT kind, name, min(weight) FROM animals GROUP BY kind HAVING count(*) > 1",
    "SELECT kind FROM animals GROUP BY kind ORDER BY max(weight) DESC LIMIT 1",
    "SELECT kind AS k, avg(weight) FROM animals GROUP BY k",
    "SELECT substr(born, 1, 4) FROM animals WHERE born IS NOT NULL",
)
OTHER_MEANING = {
    "SELECT avg(note) FROM animals": "it fails in DuckDB: Binder Error",
    "SELECT 7 / 2 FROM animals": "it returns other rows in DuckDB",
    "SELECT nothing FROM animals": "it fails in SQLite: ",
    "SELECT name FROM animals WHERE (": "it cannot be read as SQLite's: ",
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
