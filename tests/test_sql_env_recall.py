"""Remembered results: the same as run ones, for the right database only, and never for what may change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentgym.envs.sql import recall
from agentgym.envs.sql.recall import Recall
from agentgym.tools.database import QueryError, QueryLimits, QueryResult

LIMITS = QueryLimits()


class Counting:
    """A database that says how often it was asked."""

    engine = "sqlite"

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


Asks = Callable[[Recall, Counting, str, str, QueryLimits], object]


def query(memory: Recall, database: Counting, identity: str, sql: str, limits: QueryLimits) -> object:
    return memory.query(database, identity, sql, limits)


def preview(memory: Recall, database: Counting, identity: str, sql: str, limits: QueryLimits) -> object:
    return memory.preview(database, identity, sql, limits, 2)


both = pytest.mark.parametrize("ask", [query, preview])


@both
def test_a_statement_is_run_once(ask: Asks):
    memory, database = Recall(), Counting()
    first = ask(memory, database, "a", "SELECT 1", LIMITS)
    assert ask(memory, database, "a", "SELECT 1", LIMITS) == first
    assert database.asked == 1


def test_a_preview_has_the_rows_that_are_wanted():
    memory, database = Recall(), Counting(rows=9)
    lines = [memory.preview(database, "a", "SELECT 1", LIMITS, rows).count("\n1") for rows in (2, 5, 2)]
    assert lines == [2, 5, 2]
    assert database.asked == 1


@both
def test_other_databases_statements_and_limits_are_run_for_themselves(ask: Asks):
    memory, database = Recall(), Counting()
    for identity, sql, limits in (
        ("a", "SELECT 1", LIMITS),
        ("b", "SELECT 1", LIMITS),
        ("a", "SELECT  1", LIMITS),
        ("a", "SELECT 1", QueryLimits(max_rows=1)),
    ):
        ask(memory, database, identity, sql, limits)
    assert database.asked == 4


@both
@pytest.mark.parametrize("sql", ["SELECT random()", "SELECT NOW()", "SELECT date('now')", "SELECT current_date"])
def test_what_may_change_is_run_again(sql: str, ask: Asks):
    memory, database = Recall(), Counting()
    ask(memory, database, "a", sql, LIMITS)
    ask(memory, database, "a", sql, LIMITS)
    assert database.asked == 2


@both
def test_errors_and_long_results_are_not_kept(ask: Asks):
    memory, database = Recall(), Counting(rows=5_000)
    for sql in ("broken", "broken", "SELECT long", "SELECT long"):
        try:
            ask(memory, database, "a", sql, LIMITS)
        except QueryError:
            continue
    assert database.asked == 4


@both
def test_the_oldest_results_make_room(monkeypatch: pytest.MonkeyPatch, ask: Asks):
    monkeypatch.setattr(recall, "MAX_ENTRIES", 3)
    memory, database = Recall(), Counting()
    for i in (1, 2, 3, 4, 4, 1):
        ask(memory, database, "a", f"SELECT {i}", LIMITS)
    assert database.asked == 5
