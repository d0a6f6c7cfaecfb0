"""Rows that tie in the gold's sort keys may be swapped, and any of them returned where LIMIT cuts the tie."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agentgym.envs.sql.ties import cut_ties, match_up_to_ties, ties_of
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


def equal(predicted: str, gold: str, ordered: bool = True) -> bool:
    return match_up_to_ties(run(predicted), run(gold), gold, "sqlite", ordered, run)


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


NAMED = "SELECT name FROM people WHERE name IN ('{}') ORDER BY age DESC"
OLDEST_TWO = "SELECT name FROM people ORDER BY age DESC LIMIT 2"
SMALLEST_CITY = "SELECT city FROM people GROUP BY city ORDER BY COUNT(*) LIMIT 1"
CUT = {
    # gold: right answers, wrong answers
    OLDEST_TWO: (("Dee', 'Ann", "Dee', 'Cy"), ("Ann', 'Cy", "Dee', 'Bob")),
    "SELECT name FROM people ORDER BY age DESC LIMIT 1 OFFSET 1": (("Ann", "Cy"), ("Dee", "Bob")),
    "SELECT name FROM people LIMIT 1": (("Ann", "Bob", "Dee"), ("Eve",)),
    "SELECT DISTINCT age, city FROM people ORDER BY age LIMIT 2": ((), ("Ann", "Bob")),
    f"SELECT name FROM people WHERE age = 31 AND city = ({SMALLEST_CITY})": (("Ann", "Cy"), ("Bob", "Dee")),
}


@pytest.mark.parametrize("gold", CUT)
@pytest.mark.parametrize("ordered", [False, True])
def test_any_member_of_a_tie_that_limit_cuts_is_right(gold: str, ordered: bool):
    right, wrong = CUT[gold]
    assert cut_ties(gold, "sqlite", run) != []
    for names in right:
        assert equal(NAMED.format(names), gold, ordered), names
    for names in wrong:
        assert not equal(NAMED.format(names), gold, ordered), names


def test_rows_above_a_cut_tie_are_not_taken_for_members_of_it():
    gold = "SELECT column1 FROM (VALUES ('X', 1), ('X', 2), ('Y', 2)) ORDER BY column2 LIMIT 2"
    for names, right in (("('X'), ('Y')", True), ("('X'), ('X')", True), ("('Y'), ('Y')", False)):
        assert equal(f"VALUES {names}", gold) is right, names


def test_a_tie_of_two_columns_is_found_in_any_order_of_columns():
    gold = "SELECT DISTINCT age, city FROM people ORDER BY age LIMIT 2"
    for city, right in (("Oslo", True), ("Rome", True), ("Lima", False)):
        assert equal(f"SELECT 'Rome', 25 UNION SELECT '{city}', 31 ORDER BY 2", gold) is right, city
    assert cut_ties("SELECT name FROM people ORDER BY age, name LIMIT 2", "sqlite", run) == []


def test_queries_that_cannot_be_rewritten_stay_strict():
    for sql in (
        "SELECT DISTINCT city FROM people ORDER BY age",
        "SELECT name FROM people",
        "SELECT (((",
    ):
        assert ties_of(sql, "sqlite") is None, sql


TIED, SWAPPED = result(("Ann",), ("Cy",)), result(("Cy",), ("Ann",))


def test_rows_may_be_swapped_only_if_the_keyed_query_shows_a_tie():
    keyed = {
        "other rows": result(("Ann", 31), ("Bob", 31)),
        "no key": result(("Ann",), ("Cy",)),
        "no tie": result(("Ann", 31), ("Cy", 32)),
        "another order": result(("Cy", 31), ("Ann", 31)),
        "a tie": result(("Ann", 31), ("Cy", 31)),
    }
    swaps = {
        name
        for name, rows in keyed.items()
        if match_up_to_ties(SWAPPED, TIED, BY_AGE, "sqlite", True, lambda _: rows)  # noqa: B023
    }
    assert swaps == {"another order", "a tie"}

    def broken(sql: str) -> QueryResult:
        raise QueryError("no such column")

    for gold in (BY_AGE, "SELECT name FROM people"):
        assert not match_up_to_ties(SWAPPED, TIED, gold, "sqlite", True, broken)
