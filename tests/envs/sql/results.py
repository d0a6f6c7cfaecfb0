"""Query results for tests of how they are graded."""

from __future__ import annotations

from agentgym.tools.database.base import QueryResult


def result(*rows: tuple, columns: int | None = None, truncated: bool = False) -> QueryResult:
    """Return a result with these rows; without rows, `columns` is their width."""
    width = len(rows[0]) if columns is None else columns
    return QueryResult(tuple(f"c{i}" for i in range(width)), ("?",) * width, rows, truncated, 0.0)
