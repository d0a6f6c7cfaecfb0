"""Hostile statements end in a clear error or a harmless result, and the database keeps working unchanged."""

from __future__ import annotations

import datetime
import os

import pytest

from agentgym.tools.database import (
    Column,
    Database,
    DatabasePool,
    DatabaseSpec,
    QueryError,
    QueryErrorKind,
    QueryLimits,
    Table,
)
from tests.rows import each_row

LIMITS = QueryLimits(timeout_s=0.5, memory_mb=256)
K = QueryErrorKind
SPEC = DatabaseSpec(
    "attacked",
    (Table("t", (Column("a", "INTEGER"), Column("b", "VARCHAR")), tuple((i, f"row {i}") for i in range(1000)), "a"),),
)
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) "
LONG_JOIN = ", ".join(f"t t{i}" for i in range(4))
DOUBLING = "WITH c0 AS (SELECT a FROM t), " + ", ".join(
    f"c{i} AS (SELECT 1 AS a FROM c{i - 1} x, c{i - 1} y)" for i in range(1, 40)
)

WRITES = [
    "INSERT INTO t VALUES (-1, 'x')",
    "UPDATE t SET b = 'x'",
    "DELETE FROM t",
    "DROP TABLE t",
    "CREATE TABLE u (a INTEGER)",
    "CREATE TEMP TABLE u (a INTEGER)",
    "CREATE VIEW v AS SELECT 1",
    "EXPLAIN INSERT INTO t VALUES (-1, 'x')",
    "BEGIN",
    "VACUUM",
    "ATTACH ':memory:' AS m",
    "SELECT 1; DELETE FROM t",
    "/* SELECT */ DELETE FROM t",
]
FORBIDDEN = {
    "duckdb": [
        "TRUNCATE t",
        "CREATE MACRO m(x) AS x + 1",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (-1, 'x')",
        "-- explain \nEXPLAIN SELECT getenv('HOME') UNION ALL\nSELECT 'a'",
        "/* explain /*\n*/*/EXPLAIN ANALYZE SELECT getenv('HOME') UNION ALL\nSELECT 'a'",
        "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "COPY t TO '/tmp/agentgym_attack.csv'",
        "EXPORT DATABASE '/tmp/agentgym_attack'",
        "INSTALL httpfs",
        "SET threads = 8",
        "PRAGMA database_list",
        "CALL duckdb_settings()",
        "PREPARE p AS SELECT 1",
        "USE system",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM READ_TEXT('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM query('DELETE FROM t')",
        "SELECT * FROM \"query\" /* here */ ('SELECT 1')",
        "SELECT * FROM system.main.query('SELECT 1')",
        "SELECT (SELECT count(*) FROM query_table('t'))",
        "WITH q AS (FROM query('SELECT 1')) SELECT * FROM q",
        "DESCRIBE SELECT * FROM query('SELECT 1')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT * FROM duckdb_settings()",
        'SELECT * FROM "DuckDB_Settings"()',
        "SELECT 1FROM duckdb_settings()",
        "SELECT 1_0FROM/**/main.duckdb_settings()",
        "FROM t,duckdb_secrets()",
        "SELECT path FROM duckdb_databases",
        "SELECT * FROM pragma_database_list",
        "SELECT current_setting('temp_directory')",
        "SELECT * FROM pg_catalog.pg_settings",
    ],
    "sqlite": [
        "REPLACE INTO t VALUES (1, 'x')",
        "WITH w AS (SELECT 1) DELETE FROM t",
        "VACUUM INTO '/tmp/agentgym_attack.db'",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('/tmp/x.so')",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "ATTACH '/tmp/agentgym_attack.db' AS m",
    ],
}
BOMBS = [
    (ENDLESS + "SELECT count(*) FROM r", {K.TIMEOUT}),
    (f"SELECT count(*) FROM {LONG_JOIN} WHERE (t0.a * t1.a + t2.a * t3.a) % 7 = 3", {K.TIMEOUT}),
    (f"SELECT t0.b || t1.b FROM {LONG_JOIN} ORDER BY t1.b || t0.b", {K.TIMEOUT, K.MEMORY}),
    (DOUBLING + " SELECT count(*) FROM c39", {K.TIMEOUT, K.MEMORY, K.TOO_LARGE}),
    ("SELECT " + "(" * 5000 + "1" + ")" * 5000, None),
    ("SELECT 1" + " UNION ALL SELECT 1" * 5000, {K.TOO_LARGE}),
    ("SELECT '" + "x" * 30_000 + "'", {K.TOO_LARGE}),
    ("SELECT '\0'", {K.SYNTAX}),
    ("  ;  ", {K.SYNTAX}),
    ("SELECT getenv('HOME')", {K.SYNTAX, K.FORBIDDEN}),
    ("SELECT * FROM '/etc/passwd'", {K.SYNTAX, K.FORBIDDEN}),
    ("SELECT ?", None),
]
ENGINE_BOMBS = {
    "duckdb": [
        ("SELECT repeat('x', 2000000000)", {K.MEMORY, K.TIMEOUT}),
        ("SELECT list(i) FROM range(1000000000) r(i)", {K.MEMORY, K.TIMEOUT}),
        ("SELECT string_agg(b, '') FROM (SELECT t0.b FROM t t0, t t1, t t2)", {K.MEMORY, K.TIMEOUT}),
        ("SELECT sum(i) FROM range(1000000000000) r(i)", {K.TIMEOUT}),
        ("SELECT pg_sleep(60)", {K.TIMEOUT, K.SYNTAX}),
        ("SELECT lpad('x', 2000000000, 'y')", {K.MEMORY, K.TIMEOUT, K.RUNTIME}),
        ("SELECT regexp_matches(repeat('a', 100000), '(a*)*b')", None),
        ("SELECT write_log('x')", {K.FORBIDDEN}),
    ],
    "sqlite": [
        ("SELECT printf('%.*c', 1000000000, 'x')", {K.TOO_LARGE}),
        ("SELECT printf('%.' || '1000000000' || 'c', 'x') FROM t", {K.TOO_LARGE}),
        ("SELECT length(zeroblob(2000000000))", {K.TOO_LARGE}),
        ("SELECT group_concat(b) FROM (SELECT t0.b FROM t t0, t t1, t t2)", {K.TOO_LARGE, K.TIMEOUT}),
        ("SELECT trim(hex(zeroblob(100000)), replace(hex(zeroblob(100000)), '0', '1'))", {K.TOO_LARGE}),
        ("SELECT hex(zeroblob(120000)) LIKE '%' || hex(zeroblob(1000)) || '1'", {K.TOO_LARGE, K.RUNTIME}),
        ("SELECT json_patch('{}', '{}')", {K.FORBIDDEN}),
    ],
}


@pytest.fixture(scope="module")
def pool():
    pool = DatabasePool()
    yield pool
    pool.close()


def provoke(database: Database, sql: str) -> QueryErrorKind | None:
    """Run `sql`, check that the database is unchanged, and return the kind of error (`None` on success)."""
    kind, message = None, "no message at all"
    try:
        database.query(sql)
    except QueryError as error:
        kind, message = error.kind, str(error)
    assert 10 < len(message) < 700
    assert not any(mark in message for mark in ("Traceback", "/root", "agentgym-duckdb", os.getcwd()))
    assert database.query("SELECT count(*), sum(a), max(b) FROM t").rows == ((1000, 499500, "row 999"),)
    return kind


@each_row("engine, sql", [(engine, sql) for engine in FORBIDDEN for sql in WRITES])
def test_no_statement_writes(pool, engine, sql):
    with pool.open(SPEC, engine, LIMITS) as database:
        assert provoke(database, sql) in {K.FORBIDDEN, K.SYNTAX}


@each_row("engine, sql", [(engine, sql) for engine in FORBIDDEN for sql in FORBIDDEN[engine]])
def test_a_forbidden_statement_is_refused_with_the_allowed_kinds(pool, engine, sql):
    with pool.open(SPEC, engine, LIMITS) as database:
        assert provoke(database, sql) is K.FORBIDDEN
        with pytest.raises(QueryError, match="SELECT"):
            database.query(sql)
    assert not any(name.startswith("agentgym_attack") for name in os.listdir("/tmp"))


@each_row("engine, sql, kinds", [(engine, *bomb) for engine in FORBIDDEN for bomb in BOMBS + ENGINE_BOMBS[engine]])
def test_an_expensive_or_broken_statement_ends_without_harm(pool, engine, sql, kinds):
    with pool.open(SPEC, engine, LIMITS) as database:
        kind = provoke(database, sql)
    assert kinds is None or kind in kinds


@each_row(
    "sql",
    [
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM pg_catalog.pg_class",
        "SHOW DATABASES",
        "SELECT current_database(), current_schema(), current_user, version()",
        "EXPLAIN SELECT * FROM t",
        "SELECT * FROM read_duckdb('db.duckdb')",
        "SELECT * FROM nowhere",
    ],
)
def test_no_output_contains_a_host_path(pool, sql):
    with pool.open(SPEC, "duckdb", LIMITS) as database:
        try:
            output = str(database.query(sql).rows)
        except QueryError as error:
            output = str(error)
    assert "agentgym-duckdb" not in output
    assert ".duckdb" not in output.replace("'db.duckdb'", "")
    assert os.path.expanduser("~") not in output


UNREPEATABLE = {
    "duckdb": (
        "random()|uuid()|gen_random_uuid()|now()|today()|current_date|CURRENT_TIMESTAMP|localtime|txid_current()|ago(DAY)"
        "|age(DATE '2020-01-01')|nextval('s')|setseed(0.1)|a FROM t USING SAMPLE 1|sum(a) + random() FROM t"
        "|a FROM t TABLESAMPLE 50%|reservoir_quantile(a, 0.5) FROM t|a FROM t ORDER BY random()|t.a.now() FROM t"
    ),
    "sqlite": "random()|randomblob(2)|changes()|total_changes()|last_insert_rowid()|a FROM t ORDER BY RANDOM()",
}
REPEATABLE = {
    "duckdb": "age(DATE '2020-01-01', DATE '2019-01-01')|max(a) AS now FROM t ORDER BY now|'random()'"
    "|a FROM t USING SAMPLE reservoir(1 ROWS) REPEATABLE (3)|x.current_date FROM (SELECT 1 AS current_date) x"
    "|stats.x FROM (WITH stats AS (SELECT 1 AS x), uuid AS (SELECT 1) FROM stats, uuid) stats",
    "sqlite": "date('now')|datetime('NOW', '+1 day')|strftime('%H:%M')|julianday('now')|unixepoch()|time()"
    "|CURRENT_TIMESTAMP|current_date|current_time|date('2020-02-05', 'start of month')",
}


@each_row("engine, expression", [(engine, item) for engine, text in UNREPEATABLE.items() for item in text.split("|")])
def test_a_query_whose_result_differs_from_run_to_run_is_refused_with_the_reason(pool, engine, expression):
    with pool.open(SPEC, engine, LIMITS) as database:
        with pytest.raises(QueryError, match="differs from run to run") as caught:
            database.query(f"SELECT {expression}")
        assert caught.value.kind is K.FORBIDDEN


@each_row("engine, expression", [(engine, item) for engine, text in REPEATABLE.items() for item in text.split("|")])
def test_other_queries_have_the_same_result_at_any_time(pool, engine, expression):
    with pool.open(SPEC, engine, LIMITS) as database:
        ((value,), *_) = database.query(f"SELECT {expression}").rows
    assert str(datetime.date.today()) not in str(value)
    if engine == "sqlite" and "2020" not in expression:
        assert str(value) in ("2024-01-01", "00:00:00", "2024-01-01 00:00:00", "2024-01-02 00:00:00", "00:00",
                              "2460310.5", "1704067200")  # fmt: skip


def test_plans_are_shown_without_times(pool):
    with pool.open(SPEC, "duckdb", LIMITS) as database:
        for before in ("", "/* why */ ", "-- why\n"):
            assert database.query(f"{before}EXPLAIN SELECT a FROM t").rows[0][0] == "physical_plan"
            with pytest.raises(QueryError, match="times, which differ from run to run"):
                database.query(f"{before}EXPLAIN ANALYZE SELECT a FROM t")


def test_no_state_passes_from_one_statement_to_the_next(pool):
    with pool.open(SPEC, "duckdb", LIMITS) as first, pool.open(SPEC, "duckdb", LIMITS) as second:
        for sql in (
            "SELECT setseed(0.5)",
            "SET VARIABLE v = 1",
            "CREATE TEMP TABLE x AS SELECT 1",
            "SET search_path = 'temp'",
        ):
            assert provoke(first, sql) is K.FORBIDDEN
        assert second.query("SELECT getvariable('v')").rows == ((None,),)
