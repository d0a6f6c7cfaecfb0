"""The cache of query results: per database, and without statements whose result may change."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.envs.sql.recall import Recall
from agentgym.tools.database import QueryError, QueryLimits, QueryResult

LIMITS = QueryLimits()


class CountingDatabase:
    """A database that counts its queries."""

    queries = 0

    def query(self, sql: str, limits: QueryLimits | None = None) -> QueryResult:
        self.queries += 1
        if sql == "broken":
            raise QueryError("no")
        return QueryResult(("n",), ("INTEGER",), ((self.queries,),), False, 0.0)


def ask(memory: Recall, database: Any, sql: str, identity: str = "a", limits: QueryLimits = LIMITS) -> object:
    """Return a result and its preview, which need at most one run."""
    return memory.query(database, identity, sql, limits), memory.preview(database, identity, sql, limits, 2)


def test_a_statement_runs_once_per_database_text_and_limits():
    memory, database = Recall(), CountingDatabase()
    assert ask(memory, database, "SELECT 1") == ask(memory, database, "SELECT 1")
    assert database.queries == 1
    ask(memory, database, "SELECT 1", "b")
    ask(memory, database, "SELECT  1")
    ask(memory, database, "SELECT 1", "a", QueryLimits(max_rows=1))
    assert database.queries == 4


def test_results_that_may_change_or_fail_are_not_cached():
    for sql in ("SELECT random()", "SELECT NOW()", "SELECT date('now')", "SELECT current_date"):
        memory, database = Recall(), CountingDatabase()
        ask(memory, database, sql)
        assert database.queries == 2, sql
    memory, database = Recall(), CountingDatabase()
    for _ in range(2):
        with pytest.raises(QueryError):
            ask(memory, database, "broken")
    assert database.queries == 2
