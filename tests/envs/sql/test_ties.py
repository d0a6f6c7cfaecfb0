"""Rows that tie in the gold's sort keys may be swapped, and no others."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from agentgym.envs.sql.ties import match_up_to_ties, with_sort_keys
from agentgym.tools.database import QueryError, QueryResult
from tests.envs.sql.results import result

ROWS = [("Ann", 31, "Oslo"), ("Bob", 25, "Rome"), ("Cy", 31, "Rome"), ("Dee", 40, "Oslo")]
BY_AGE = "SELECT name FROM people ORDER BY age"


def run(sql: str) -> QueryResult:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE people (name, age, city)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
        cursor = connection.execute(sql)
        names = tuple(item[0] for item in cursor.description)
        return QueryResult(names, ("",) * len(names), tuple(cursor.fetchall()), False, 0.0)


def equal(predicted: str, gold: str) -> bool:
    return match_up_to_ties(run(predicted), run(gold), gold, "sqlite", run)


def test_rows_that_tie_may_be_swapped():
    for gold in (
        BY_AGE,
        "SELECT name FROM people ORDER BY people.age ASC",
        "SELECT name, age AS years FROM people ORDER BY years",
        "SELECT name, age FROM people ORDER BY 2",
        "SELECT name, age FROM people GROUP BY name ORDER BY max(age)",
    ):
        columns = "name, age" if "," in gold else "name"
        assert equal(f"SELECT {columns} FROM people ORDER BY age, name DESC", gold), gold
        assert not equal(f"SELECT {columns} FROM people ORDER BY age DESC, name DESC", gold), gold
        assert not equal(f"SELECT {columns} FROM people ORDER BY name", gold), gold


def test_every_sort_key_counts_and_tied_rows_stay_the_same_rows():
    assert not equal("SELECT name FROM people ORDER BY age, name DESC", "SELECT name FROM people ORDER BY age, name")
    assert not equal("SELECT 'Ann' FROM people ORDER BY age", BY_AGE)
    assert not equal("SELECT name FROM people ORDER BY age LIMIT 3", BY_AGE)


def test_queries_that_cannot_be_rewritten_stay_strict():
    for sql in (
        "SELECT DISTINCT city FROM people ORDER BY age",
        "SELECT name FROM people UNION SELECT city FROM people ORDER BY 1",
        "SELECT name FROM people",
        "SELECT (((",
    ):
        assert with_sort_keys(sql, "sqlite") is None, sql


TIED, SWAPPED = result(("Ann",), ("Cy",)), result(("Cy",), ("Ann",))


def test_rows_may_be_swapped_only_if_the_keyed_query_shows_a_tie():
    keyed = {
        "other rows": result(("Ann", 31), ("Bob", 31)),
        "no key": result(("Ann",), ("Cy",)),
        "no tie": result(("Ann", 31), ("Cy", 32)),
        "another order": result(("Cy", 31), ("Ann", 31)),
        "a tie": result(("Ann", 31), ("Cy", 31)),
    }
    swaps = {name for name, rows in keyed.items() if match_up_to_ties(SWAPPED, TIED, BY_AGE, "sqlite", lambda _: rows)}  # noqa: B023
    assert swaps == {"a tie"}

    def broken(sql: str) -> QueryResult:
        raise QueryError("no such column")

    for gold in (BY_AGE, "SELECT name FROM people"):
        assert not match_up_to_ties(SWAPPED, TIED, gold, "sqlite", broken)
