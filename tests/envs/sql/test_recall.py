"""The cache of query results: per database, and without statements whose result may change."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from agentgym.envs.sql import recall
from agentgym.envs.sql.recall import Recall
from agentgym.tools.database import QueryError, QueryLimits, QueryResult

LIMITS = QueryLimits()


class CountingDatabase:
    """A database that counts its queries."""

    def __init__(self, rows: int = 1):
        self.queries, self.rows = 0, rows

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        self.queries += 1
        if sql == "broken":
            raise QueryError("no")
        return QueryResult(("n",), ("INTEGER",), ((self.queries,),) * self.rows, False, 0.0)


def ask(memory: Recall, database: Any, sql: str, identity: str = "a", limits: QueryLimits = LIMITS) -> object:
    """Return a result and its preview, which need at most one run."""
    return memory.query(database, identity, sql, limits), memory.preview(database, identity, sql, limits, 2)


def test_a_statement_runs_once_per_database_text_and_limits():
    memory, database = Recall(), CountingDatabase(rows=9)
    assert ask(memory, database, "SELECT 1") == ask(memory, database, "SELECT 1")
    assert memory.preview(database, "a", "SELECT 1", LIMITS, 5).count("\n1") == 5  # type: ignore[arg-type]
    assert database.queries == 1
    ask(memory, database, "SELECT 1", "b")
    ask(memory, database, "SELECT  1")
    ask(memory, database, "SELECT 1", "a", QueryLimits(max_rows=1))
    assert database.queries == 4


def test_results_that_may_change_fail_or_are_long_are_not_cached():
    for sql in ("SELECT random()", "SELECT NOW()", "SELECT date('now')", "SELECT current_date"):
        memory, database = Recall(), CountingDatabase()
        ask(memory, database, sql)
        assert database.queries == 2, sql
    memory, database = Recall(), CountingDatabase(rows=5_000)
    ask(memory, database, "SELECT long")
    for run in (memory.query, partial(memory.preview, rows=2)):
        with pytest.raises(QueryError):
            run(database, "a", "broken", LIMITS)  # type: ignore[arg-type]
    assert database.queries == 4


def test_the_oldest_results_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recall, "MAX_ENTRIES", 3)
    memory, database = Recall(), CountingDatabase()
    for i in (1, 2, 3, 4, 4, 1):
        ask(memory, database, f"SELECT {i}")
    assert database.queries == 5
