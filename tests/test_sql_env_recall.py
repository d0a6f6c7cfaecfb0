"""Remembered results: the same as run ones, for the right database only, and never for what may change."""

from __future__ import annotations

import pytest

from agentgym.envs.sql import recall
from agentgym.envs.sql.recall import Recall
from agentgym.tools.database import QueryError, QueryLimits, QueryResult

LIMITS = QueryLimits()


class Counting:
    """A database that says how often it was asked."""

    dialect = "sqlite"

    def __init__(self, rows: int = 1):
        self.asked, self.rows = 0, rows

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        self.asked += 1
        if sql == "broken":
            raise QueryError("no")
        return QueryResult(("n",), ("INTEGER",), ((self.asked,),) * self.rows, False, 0.0)

    def tables(self) -> tuple[str, ...]:
        return ()

    def describe(self, table: str, sample_rows: int = 3):
        raise NotImplementedError

    def close(self) -> None: ...


def test_a_statement_is_run_once():
    memory, database = Recall(), Counting()
    first = memory.query(database, "a", "SELECT 1", LIMITS)
    assert memory.query(database, "a", "SELECT 1", LIMITS) == first
    assert database.asked == 1


def test_other_databases_statements_and_limits_are_run_for_themselves():
    memory, database = Recall(), Counting()
    for identity, sql, limits in (
        ("a", "SELECT 1", LIMITS),
        ("b", "SELECT 1", LIMITS),
        ("a", "SELECT  1", LIMITS),
        ("a", "SELECT 1", QueryLimits(max_rows=1)),
    ):
        memory.query(database, identity, sql, limits)
    assert database.asked == 4


@pytest.mark.parametrize("sql", ["SELECT random()", "SELECT NOW()", "SELECT date('now')", "SELECT current_date"])
def test_what_may_change_is_run_again(sql: str):
    memory, database = Recall(), Counting()
    memory.query(database, "a", sql, LIMITS)
    memory.query(database, "a", sql, LIMITS)
    assert database.asked == 2


def test_errors_and_long_results_are_not_kept():
    memory, database = Recall(), Counting(rows=5_000)
    for sql in ("broken", "broken", "SELECT long", "SELECT long"):
        try:
            memory.query(database, "a", sql, LIMITS)
        except QueryError:
            continue
    assert database.asked == 4


def test_the_oldest_results_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recall, "MAX_ENTRIES", 3)
    memory, database = Recall(), Counting()
    for i in (1, 2, 3, 4, 4, 1):
        memory.query(database, "a", f"SELECT {i}", LIMITS)
    assert database.asked == 5
