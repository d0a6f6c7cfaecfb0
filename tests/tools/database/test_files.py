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


BUILT_IN = ["show", "glob", "query", "read_csv", "checkpoint", "insert"]
BUILT_IN += ["duckdb_settings", "pg_settings", "sqlite_master"]


@pytest.fixture
def named_like_built_ins(tmp_path):
    path = tmp_path / "names.duckdb"
    with duckdb.connect(path) as connection:
        for name in BUILT_IN:
            connection.execute(f"CREATE TABLE \"{name}\" AS SELECT '{name}' AS own")
        connection.execute("CREATE VIEW duckdb_secrets AS SELECT 'duckdb_secrets' AS own")
    return path


@each_row("name", [*BUILT_IN, "duckdb_secrets"])
def test_a_table_named_like_a_built_in_can_be_queried(named_like_built_ins, name):
    with open_file(named_like_built_ins, "duckdb") as database:
        assert database.describe(name.upper()).sample.rows == ((name,),)
        for from_ in (f'"{name}"', f'main."{name}" AS t', f'(SELECT * FROM "{name.upper()}")'):
            assert database.query(f"SELECT own FROM {from_}").rows == ((name,),)
        with pytest.raises(QueryError):
            database.query(f'INSERT INTO "{name}" VALUES (1)')


@each_row(
    "sql",
    [
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM system.main.duckdb_settings",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM show, duckdb_databases",
        "SELECT current_setting('threads') FROM duckdb_settings",
        "WITH x AS (SELECT * FROM duckdb_extensions) SELECT * FROM duckdb_settings",
    ],
)
def test_a_table_named_like_a_built_in_does_not_expose_the_built_in(named_like_built_ins, sql):
    with open_file(named_like_built_ins, "duckdb") as database, pytest.raises(QueryError) as caught:
        database.query(sql)
    assert caught.value.kind in (QueryErrorKind.FORBIDDEN, QueryErrorKind.SYNTAX)
