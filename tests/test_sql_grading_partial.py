"""Partial credit and schema linking: honest near misses earn more than every known cheat."""

from __future__ import annotations

import pytest

from agentgym.envs.sql.grading import NEAR, match, partial
from agentgym.envs.sql.linking import linking
from agentgym.envs.sql.references import Schema, references
from agentgym.tools.database.base import QueryResult

PEOPLE = [(f"P{i}", 20 + i, ("Oslo", "Rome", "Lima")[i % 3]) for i in range(12)]
GOLD = [(name, age) for name, age, _ in PEOPLE if age < 30]
CHEATS = {
    "select_star": PEOPLE[:10],
    "select_star_without_where": PEOPLE,
    "no_where_of_few_rows": [(name, age) for name, age, _ in PEOPLE],
    "wrong_row_association": [(name, 49 - age) for name, age in GOLD],
    "shuffled_column": [(name, GOLD[i - 1][1]) for i, (name, _) in enumerate(GOLD)],
    "constant_rows": [GOLD[0]] * len(GOLD),
    "cross_join": [(name, age) for name, _ in GOLD for _, age in GOLD],
    "one_guessed_cell": [(GOLD[0][0],)],
    "one_guessed_row": [GOLD[0]],
    "numbers_without_names": [("x", age) for _, age in GOLD],
    "every_small_number": [(str(i), i) for i in range(100)],
    "swapped_within_rows": [(name, age) if i % 2 else (age, name) for i, (name, age) in enumerate(GOLD)],
}
NEAR_MISSES = {
    "one_row_missing": GOLD[:-1],
    "one_row_too_many": [*GOLD, ("P10", 30)],
    "one_wrong_cell": [*GOLD[:-1], ("P9", 28)],
}


def result(rows: list[tuple], width: int | None = None, truncated: bool = False) -> QueryResult:
    width = len(rows[0]) if width is None else width
    return QueryResult(tuple(f"c{i}" for i in range(width)), ("?",) * width, tuple(rows), truncated, 0.0)


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheat_earns_less_than_every_near_miss(cheat: str):
    score = partial(result(CHEATS[cheat]), result(GOLD))
    assert score < min(partial(result(rows), result(GOLD)) for rows in NEAR_MISSES.values())
    assert score < 0.42 < NEAR


@pytest.mark.parametrize("miss", NEAR_MISSES)
def test_near_miss_earns_something_but_far_from_full_marks(miss: str):
    assert 0.4 < partial(result(NEAR_MISSES[miss]), result(GOLD)) < NEAR


@pytest.mark.parametrize("cheat", ["constant_rows", "one_guessed_cell", "cross_join", "every_small_number"])
def test_blind_cheats_earn_next_to_nothing(cheat: str):
    assert partial(result(CHEATS[cheat]), result(GOLD)) < 0.05


def test_the_three_published_hacks_are_far_from_full_marks():
    gold = result([("Ann", 31), ("Bob", 25), ("Cy", 44)])
    star = result([(1, "Ann", 31, "Oslo"), (2, "Bob", 25, "Rome"), (3, "Cy", 44, "Oslo")])
    no_where = result([("Ann", 31), ("Bob", 25), ("Cy", 44), ("Dee", 70)])
    permuted = result([("Ann", 44), ("Bob", 25), ("Cy", 31)])
    assert partial(star, gold) < 0.25
    assert partial(no_where, gold) < 0.4
    assert partial(permuted, gold) < 0.2


def test_only_a_match_earns_full_marks():
    for rows in (*CHEATS.values(), *NEAR_MISSES.values(), GOLD, GOLD[::-1]):
        for ordered in (False, True):
            is_match = match(result(rows), result(GOLD), ordered)
            score = partial(result(rows), result(GOLD), ordered)
            assert (score == 1.0) is is_match
            assert is_match or 0.0 <= score < NEAR


def test_empty_and_cut_results_earn_nothing():
    assert partial(result([], width=2), result(GOLD)) == 0.0
    assert partial(result(GOLD), result([], width=2)) == 0.0
    assert partial(result(GOLD, truncated=True), result(GOLD)) == 0.0
    assert partial(result([(1, 2)] * 150_000), result(GOLD)) == 0.0


def test_the_right_rows_in_the_wrong_order_are_a_near_miss():
    assert 0.4 < partial(result(GOLD[::-1]), result(GOLD), ordered=True) < NEAR


def test_repeating_the_most_frequent_value_does_not_pay():
    cities = [("Oslo",)] * 7 + [("Rome",), ("Lima",), ("Bonn",)]
    assert partial(result([("Oslo",)] * 10), result(cities)) < 0.1


def test_rows_that_agree_in_nothing_but_null_earn_nothing():
    gold = [("Ann", None), ("Bob", None), ("Cy", 3)]
    assert partial(result([(None,)] * 3), result(gold)) == 0.0
    assert partial(result([(None, None)] * 3), result(gold)) == 0.0
    assert partial(result([("Ann", None), ("Bob", None), ("Cy", 4)]), result(gold)) > 0.1


SCHEMA = Schema({"t": ["a", "b", "c", "count", "t"], "u": ["id", "a", "d"], "other table": ["z"]})


def read(sql: str, engine: str = "duckdb") -> set[str]:
    """The tables and columns that a query reads, as words."""
    return {name for _, name in references(sql, engine, SCHEMA)}


def link(predicted: str, gold: str) -> float:
    return linking(predicted, gold, "duckdb", SCHEMA)


def test_linking_is_the_jaccard_index_of_tables_and_columns():
    assert link("SELECT a, c FROM t", "select A from T where B > 1") == 0.5
    assert link("SELECT a FROM t WHERE b = 2", "SELECT x.a FROM t AS x WHERE x.b > 1") == 1.0
    assert link("SELECT 1", "SELECT 2") == 0.0
    assert link("SELECT (((", "SELECT a FROM t") == 0.0


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT 1, 1 AS "a"',
        "SELECT 1 AS a, 2 AS b, 3 AS t",
        "SELECT 1 FROM t, u WHERE 0",
        "SELECT 1 FROM t JOIN u ON 1 = 1",
        "SELECT 'a b c t' AS x",
        "SELECT 1 -- t.a, u.d",
        "SELECT 1 /* SELECT a FROM t */",
        "SELECT 1 FROM (SELECT a, b FROM t) AS s",
        "WITH s AS (SELECT a, b FROM t) SELECT 1",
        "WITH s AS (SELECT a, b FROM t) SELECT 1 FROM s",
        "SELECT a, b, c FROM (SELECT 1 AS a, 2 AS b, 3 AS c) AS t",
        "WITH t AS (SELECT 1 AS a, 2 AS b) SELECT a, b FROM t",
        "WITH t(a, b) AS (SELECT 1, 2) SELECT t.a, t.b FROM t",
        "SELECT 1 AS a, 2 AS b FROM t ORDER BY a, b",
        "SELECT 1 AS a FROM t GROUP BY a HAVING a > 0",
        "SELECT 1 FROM t UNION ALL SELECT 2 FROM u",
        "SELECT EXISTS (SELECT 1 FROM t), EXISTS (SELECT 1 FROM u)",
        "VALUES (1, 'a')",
        "SELECT struct_pack(a := 1, b := 2)",
    ],
)
def test_names_that_are_only_written_down_are_not_read(sql: str):
    assert read(sql) == set()
    assert link(sql, "SELECT a, b FROM t") == 0.0


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT COUNT(*) FROM t", "t"),
        ("SELECT COUNT(1) FROM t", "t"),
        ("SELECT COUNT(*) FROM (SELECT a FROM t WHERE b > 1)", "t b"),
        ("SELECT * FROM u", "u id a d"),
        ("FROM u", "u id a d"),
        ("SELECT u.* FROM t JOIN u ON t.b = u.id", "t b u id a d"),
        ("SELECT s.x FROM (SELECT a AS x, b FROM t) AS s", "t a"),
        ("SELECT a FROM (SELECT * FROM t) AS s", "t a"),
        ("SELECT q FROM (SELECT a, b FROM t) AS s(q, r)", "t a"),
        ("WITH s(q) AS (SELECT a FROM t) SELECT q FROM s WHERE q > 1", "t a"),
        ("WITH s AS (SELECT a, b FROM t), r AS (SELECT b FROM s) SELECT b FROM r", "t b"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT a FROM t, n WHERE i = b", "t a b"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.b)", "t a b u id"),
        ("SELECT c FROM t WHERE b IN (SELECT id FROM u)", "t c b u id"),
        ("SELECT c FROM t WHERE b = (SELECT MAX(d) FROM u)", "t c b u d"),
        ("SELECT d FROM u JOIN t USING (a)", "u d t a"),
        ("SELECT COUNT(*) FROM u NATURAL JOIN t", "u t a"),
        ("SELECT a AS b FROM t ORDER BY b", "t a"),
        ("SELECT a FROM t ORDER BY b", "t a b"),
        ("SELECT SUM(a) OVER (PARTITION BY c ORDER BY b) FROM t", "t a b c"),
        ("(SELECT a FROM t) UNION SELECT d FROM u", "t a u d"),
        ("SELECT T1.A FROM T AS T1", "t a"),
        ('SELECT "z" FROM "Other Table"', "other_table z"),
    ],
)  # fmt: skip
def test_what_a_query_reads_is_found_through_aliases_and_queries_within_it(sql: str, names: str):
    assert read(sql) == {name.replace("_", " ") for name in names.split()}


def test_the_quotes_of_sqlite_are_read():
    for sql in ("SELECT [z] FROM [other table]", "SELECT `z` FROM `other table`", 'SELECT z FROM "other table"'):
        assert read(sql, "sqlite") == {"z", "other table"}
    assert read('SELECT a FROM t WHERE b = "c of text"', "sqlite") == {"t", "a", "b"}


def test_naming_every_table_or_column_earns_less_than_an_honest_try_at_the_right_ones():
    gold = "SELECT a FROM t WHERE b > 1"
    honest = link("SELECT a FROM t WHERE c > 1", gold)
    for greedy in ("SELECT * FROM t, u", "SELECT a, b, c, count, t, d FROM t, u", "SELECT COUNT(*) FROM t, u"):
        assert link(greedy, gold) < honest
    assert link("SELECT a, b, c, count FROM t", "SELECT a FROM t") < 0.5
