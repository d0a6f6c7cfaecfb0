"""Schema linking: the tables and columns that a query reads."""

from __future__ import annotations

from agentgym.envs.sql.references import Schema, linking, references

SCHEMA = Schema({"t": ["a", "b", "c", "count", "t"], "u": ["id", "a", "d"], "other table": ["z"]})


def read(sql: str, engine: str = "duckdb") -> set[str]:
    """Return the names of the tables and columns that a query reads."""
    return {name for _, name in references(sql, engine, SCHEMA)}


def link(predicted: str, gold: str) -> float:
    return linking(predicted, gold, "duckdb", SCHEMA)


def test_linking_is_the_jaccard_index_of_tables_and_columns():
    assert link("SELECT a, c FROM t", "select A from T where B > 1") == 0.5
    assert link("SELECT a FROM t WHERE b = 2", "SELECT x.a FROM t AS x WHERE x.b > 1") == 1.0
    assert link("SELECT 1", "SELECT 2") == 0.0
    assert link("SELECT (((", "SELECT a FROM t") == 0.0


MENTIONED = (
    'SELECT 1, 1 AS "a"',
    "SELECT 1 AS a, 2 AS b, 3 AS t",
    "SELECT 1 FROM t JOIN u ON 1 = 1",
    "SELECT 'a b c t' AS x",
    "SELECT 1 -- t.a, u.d",
    "SELECT 1 FROM (SELECT a, b FROM t) AS s",
    "WITH s AS (SELECT a, b FROM t) SELECT 1 FROM s",
    "SELECT a, b, c FROM (SELECT 1 AS a, 2 AS b, 3 AS c) AS t",
    "WITH t(a, b) AS (SELECT 1, 2) SELECT t.a, t.b FROM t",
    "SELECT 1 AS a, 2 AS b FROM t ORDER BY a, b",
    "SELECT 1 AS a FROM t GROUP BY a HAVING a > 0",
    "SELECT 1 FROM t UNION ALL SELECT 2 FROM u",
    "SELECT EXISTS (SELECT 1 FROM t), EXISTS (SELECT 1 FROM u)",
    "VALUES (1, 'a')",
    "SELECT struct_pack(a := 1, b := 2)",
)


def test_names_that_are_only_mentioned_do_not_count():
    assert [sql for sql in MENTIONED if read(sql) or link(sql, "SELECT a, b FROM t")] == []


READ = {
    "SELECT COUNT(*) FROM t": "t",
    "SELECT COUNT(*) FROM (SELECT a FROM t WHERE b > 1)": "t b",
    "SELECT * FROM u": "u id a d",
    "FROM u": "u id a d",
    "SELECT u.* FROM t JOIN u ON t.b = u.id": "t b u id a d",
    "SELECT a FROM (SELECT * FROM t) AS s": "t a",
    "SELECT q FROM (SELECT a, b FROM t) AS s(q, r)": "t a",
    "WITH s(q) AS (SELECT a FROM t) SELECT q FROM s WHERE q > 1": "t a",
    "WITH s AS (SELECT a, b FROM t), r AS (SELECT b FROM s) SELECT b FROM r": "t b",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT a FROM t, n WHERE i = b": "t a b",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.b)": "t a b u id",
    "SELECT c FROM t WHERE b IN (SELECT id FROM u)": "t c b u id",
    "SELECT c FROM t WHERE b = (SELECT MAX(d) FROM u)": "t c b u d",
    "SELECT d FROM u JOIN t USING (a)": "u d t a",
    "SELECT COUNT(*) FROM u NATURAL JOIN t": "u t a",
    "SELECT a AS b FROM t ORDER BY b": "t a",
    "SELECT a FROM t ORDER BY b": "t a b",
    "SELECT SUM(a) OVER (PARTITION BY c ORDER BY b) FROM t": "t a b c",
    "(SELECT a FROM t) UNION SELECT d FROM u": "t a u d",
    "SELECT T1.A FROM T AS T1": "t a",
    'SELECT "z" FROM "Other Table"': "other_table z",
}


def test_names_are_resolved_through_aliases_and_sub_queries():
    expected = {sql: {name.replace("_", " ") for name in names.split()} for sql, names in READ.items()}
    assert {sql: read(sql) for sql in READ} == expected


def test_sqlites_quotes_are_understood():
    for sql in ("SELECT [z] FROM [other table]", "SELECT `z` FROM `other table`", 'SELECT z FROM "other table"'):
        assert read(sql, "sqlite") == {"z", "other table"}
    assert read('SELECT a FROM t WHERE b = "c of text"', "sqlite") == {"t", "a", "b"}


def test_naming_everything_earns_less_than_an_honest_attempt():
    gold = "SELECT a FROM t WHERE b > 1"
    honest = link("SELECT a FROM t WHERE c > 1", gold)
    for greedy in ("SELECT * FROM t, u", "SELECT a, b, c, count, t, d FROM t, u", "SELECT COUNT(*) FROM t, u"):
        assert link(greedy, gold) < honest
    assert link("SELECT a, b, c, count FROM t", "SELECT a FROM t") < 0.5
