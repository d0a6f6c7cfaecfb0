"""Existing database files are read and never written, even with unusual names and bytes."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3

import duckdb
import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.database import ForeignKey, QueryError, QueryErrorKind, open_file
from tests.rows import each_row


@pytest.fixture
def sqlite_path(tmp_path):
    path = tmp_path / "my file?.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE "schools of art" ("" TEXT, "Free Meal %" REAL, "a""b" INTEGER PRIMARY KEY);
            INSERT INTO "schools of art" VALUES ('x', 0.5, 1), (CAST(x'80fe41' AS TEXT), NULL, 2);
            CREATE TABLE pupils (id INTEGER, school INTEGER REFERENCES "schools of art", year INTEGER,
                                 PRIMARY KEY (id, year));
            CREATE VIEW both AS SELECT * FROM pupils;
            """
        )
    return path


@pytest.fixture
def duckdb_path(tmp_path):
    path = tmp_path / "some file.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute('CREATE TABLE "a b" (id INTEGER PRIMARY KEY, tags VARCHAR[])')
        connection.execute("""INSERT INTO "a b" VALUES (1, ['x', 'y']), (2, NULL)""")
        connection.execute('CREATE TABLE c ("a id" INTEGER REFERENCES "a b"(id))')
        connection.execute('CREATE VIEW v AS SELECT id FROM "a b"')
    return path


def test_a_sqlite_file_with_odd_names_is_described(sqlite_path):
    with open_file(sqlite_path, "sqlite") as database:
        assert database.tables() == ("schools of art", "pupils", "both")
        info = database.describe("schools of art")
        assert [column.name for column in info.columns] == ["", "Free Meal %", 'a"b']
        assert (info.primary_key, info.row_count) == ('a"b', 2)
        assert database.describe("pupils").foreign_keys == (ForeignKey("school", "schools of art", 'a"b'),)
        assert database.describe("pupils").primary_key is None


def test_a_duckdb_file_is_described_and_queried(duckdb_path):
    with open_file(duckdb_path, "duckdb") as database:
        assert sorted(database.tables()) == ["a b", "c", "v"]
        info = database.describe("a b")
        assert (info.primary_key, info.row_count, info.sample.rows) == ("id", 2, ((1, '["x", "y"]'), (2, None)))
        assert database.describe("c").foreign_keys == (ForeignKey("a id", "a b", "id"),)
        assert database.describe("v").row_count == 2


@each_row("engine", ["sqlite", "duckdb"])
def test_no_statement_changes_a_file_or_reveals_its_path(engine, sqlite_path, duckdb_path):
    path = sqlite_path if engine == "sqlite" else duckdb_path
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    attempts = [
        "CREATE TABLE x (a INTEGER)",
        "DELETE FROM pupils",
        f"ATTACH '{path}' AS again",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM nowhere",
        "SELECT path FROM duckdb_databases()",
    ]
    with open_file(path, engine) as database:
        for sql in attempts:
            with pytest.raises(QueryError) as caught:
                database.query(sql)
            assert caught.value.kind in {QueryErrorKind.FORBIDDEN, QueryErrorKind.SYNTAX}
            assert path.name not in str(caught.value)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(path.parent.iterdir()) == sorted([sqlite_path, duckdb_path])


def test_a_file_is_shared_until_it_changes(sqlite_path):
    with open_file(sqlite_path, "sqlite") as first, open_file(str(sqlite_path), "sqlite") as second:
        assert first._shared is second._shared
    with contextlib.closing(sqlite3.connect(sqlite_path)) as connection:
        connection.executescript("CREATE TABLE more AS SELECT hex(zeroblob(5000)) AS a")
    with open_file(sqlite_path, "sqlite") as third:
        assert "more" in third.tables()


@each_row("engine", ["sqlite", "duckdb"])
def test_a_missing_or_invalid_file_is_a_usage_error(engine, tmp_path):
    (tmp_path / "text").write_text("no database at all, " * 100)
    with pytest.raises(UsageError, match="cannot open database"):
        open_file(tmp_path / "text", engine)
    with pytest.raises(UsageError, match="no database file"):
        open_file(tmp_path / "missing", engine)


def test_a_table_named_like_a_built_in_can_be_queried_and_does_not_expose_it(tmp_path):
    names = ["show", "glob", "query", "read_csv", "duckdb_settings", "sqlite_master"]
    with duckdb.connect(tmp_path / "names.duckdb") as connection:
        for name in names:
            connection.execute(f"CREATE TABLE \"{name}\" AS SELECT '{name}' AS own")
    with open_file(tmp_path / "names.duckdb", "duckdb") as database:
        for name in names:
            assert database.describe(name.upper()).sample.rows == ((name,),)
            assert database.query(f'SELECT own FROM main."{name}" AS t').rows == ((name,),)
        for sql in (
            "SELECT * FROM duckdb_settings()",
            "SELECT * FROM system.main.duckdb_settings",
            "SELECT * FROM query('SELECT 1')",
            "SELECT * FROM show, duckdb_databases",
            "WITH x AS (SELECT * FROM duckdb_extensions) SELECT * FROM duckdb_settings",
        ):
            with pytest.raises(QueryError) as caught:
                database.query(sql)
            assert caught.value.kind in (QueryErrorKind.FORBIDDEN, QueryErrorKind.SYNTAX), sql
