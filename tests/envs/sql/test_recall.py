"""Cached results: the same as fresh ones, for the right database only, and never of statements that may change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentgym.envs.sql import recall
from agentgym.envs.sql.recall import Recall
from agentgym.tools.database import QueryError, QueryLimits, QueryResult

LIMITS = QueryLimits()


class Counting:
    """A database that counts its queries."""

    engine = "sqlite"

    def __init__(self, rows: int = 1):
        self.queries, self.rows = 0, rows

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        self.queries += 1
        if sql == "broken":
            raise QueryError("no")
        return QueryResult(("n",), ("INTEGER",), ((self.queries,),) * self.rows, False, 0.0)

    def tables(self) -> tuple[str, ...]:
        return ()

    def describe(self, table: str, sample_rows: int = 3):
        raise NotImplementedError

    def close(self) -> None: ...


Ask = Callable[..., object]


def query(memory: Recall, database: Counting, sql: str, identity: str = "a", limits: QueryLimits = LIMITS) -> object:
    return memory.query(database, identity, sql, limits)


def preview(memory: Recall, database: Counting, sql: str, identity: str = "a", limits: QueryLimits = LIMITS) -> object:
    return memory.preview(database, identity, sql, limits, 2)


both = pytest.mark.parametrize("ask", [query, preview])


@both
def test_a_statement_runs_once_per_database_text_and_limits(ask: Ask):
    memory, database = Recall(), Counting()
    first = ask(memory, database, "SELECT 1")
    assert ask(memory, database, "SELECT 1") == first
    assert database.queries == 1
    ask(memory, database, "SELECT 1", "b")
    ask(memory, database, "SELECT  1")
    ask(memory, database, "SELECT 1", "a", QueryLimits(max_rows=1))
    assert database.queries == 4


def test_a_preview_has_as_many_rows_as_each_call_asks_for():
    memory, database = Recall(), Counting(rows=9)
    lines = [memory.preview(database, "a", "SELECT 1", LIMITS, rows).count("\n1") for rows in (2, 5, 2)]
    assert (lines, database.queries) == ([2, 5, 2], 1)


@both
def test_statements_that_may_change_run_again(ask: Ask):
    for sql in ("SELECT random()", "SELECT NOW()", "SELECT date('now')", "SELECT current_date"):
        memory, database = Recall(), Counting()
        ask(memory, database, sql)
        ask(memory, database, sql)
        assert database.queries == 2, sql


@both
def test_errors_and_long_results_are_not_cached(ask: Ask):
    memory, database = Recall(), Counting(rows=5_000)
    for sql in ("broken", "broken", "SELECT long", "SELECT long"):
        try:
            ask(memory, database, sql)
        except QueryError:
            continue
    assert database.queries == 4


@both
def test_the_oldest_results_make_room(monkeypatch: pytest.MonkeyPatch, ask: Ask):
    monkeypatch.setattr(recall, "MAX_ENTRIES", 3)
    memory, database = Recall(), Counting()
    for i in (1, 2, 3, 4, 4, 1):
        ask(memory, database, f"SELECT {i}")
    assert database.queries == 5
