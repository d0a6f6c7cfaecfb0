"""Rows that tie in the gold's sort keys may stand in any order among themselves, and no others may."""

from __future__ import annotations

import sqlite3

import pytest

from agentgym.envs.sql.ties import match_up_to_ties, with_sort_keys
from agentgym.tools.database import QueryError, QueryResult

ROWS = [("Ann", 31, "Oslo"), ("Bob", 25, "Rome"), ("Cy", 31, "Rome"), ("Dee", 40, "Oslo")]


def run(sql: str) -> QueryResult:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE people (name, age, city)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
    try:
        cursor = connection.execute(sql)
        names = tuple(item[0] for item in cursor.description)
        return QueryResult(names, ("",) * len(names), tuple(cursor.fetchall()), False, 0.0)
    except sqlite3.Error as error:
        raise QueryError(str(error)) from error
    finally:
        connection.close()


def equal(predicted: str, gold: str) -> bool:
    return match_up_to_ties(run(predicted), run(gold), gold, "sqlite", run)


@pytest.mark.parametrize(
    "gold",
    [
        "SELECT name FROM people ORDER BY age",
        "SELECT name FROM people ORDER BY people.age ASC",
        "SELECT name, age AS years FROM people ORDER BY years",
        "SELECT name, age FROM people ORDER BY 2",
        "SELECT name, age FROM people GROUP BY name ORDER BY max(age)",
    ],
)
def test_rows_that_tie_may_change_places(gold: str):
    columns = "name, age" if "," in gold else "name"
    assert equal(f"SELECT {columns} FROM people ORDER BY age, name DESC", gold)
    assert not equal(f"SELECT {columns} FROM people ORDER BY age DESC, name DESC", gold)
    assert not equal(f"SELECT {columns} FROM people ORDER BY name", gold)


def test_every_sort_key_counts():
    gold = "SELECT name FROM people ORDER BY age, name"
    assert not equal("SELECT name FROM people ORDER BY age, name DESC", gold)


def test_tied_rows_must_still_be_the_same_rows():
    gold = "SELECT name FROM people ORDER BY age"
    assert not equal("SELECT 'Ann' FROM people ORDER BY age", gold)
    assert not equal("SELECT name FROM people ORDER BY age LIMIT 3", gold)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT city FROM people ORDER BY age",
        "SELECT name FROM people UNION SELECT city FROM people ORDER BY 1",
        "SELECT name FROM people",
        "SELECT (((",
    ],
)
def test_what_cannot_be_rewritten_stays_strict(sql: str):
    assert with_sort_keys(sql, "sqlite") is None
