"""A memory for results and how they look: databases are only read, so what was run once need not be run again.

The members of a group ask much the same, and every one of them is graded with the same gold query. The memory is one
per process; it holds no locks, so that forks and threads need no care.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

from agentgym.envs.sql.show import show_result
from agentgym.tools.database import Database, QueryLimits, QueryResult

_T = TypeVar("_T")

MAX_ENTRIES = 2_048
MAX_SIZE = 20_000
"""Size of the largest result that is kept, in characters, numbers counting for 8."""

_CHANGES = (
    "random", "uuid", "now", "today", "current", "local", "clock", "sequence", "nextval", "changes", "start", "version"
)  # fmt: skip
"""Words of statements that may give another result next time."""


class Recall:
    """Results of statements, by database, statement and limits; the oldest make room."""

    def __init__(self) -> None:
        self._results: OrderedDict[Hashable, QueryResult] = OrderedDict()
        self._previews: OrderedDict[Hashable, str] = OrderedDict()

    def query(self, database: Database, identity: Hashable, sql: str, limits: QueryLimits) -> QueryResult:
        """Return the result of `sql`. Raises what `database.query` raises; errors are not kept.

        Args:
            database: Where to run it.
            identity: What tells this database's content from every other's.
            sql: One statement.
            limits: Bounds on it.
        """
        key = (identity, sql, limits)
        known = self._results.get(key)
        if known is not None:
            return known
        result = database.query(sql, limits)
        if not _may_change(sql) and _size(result) <= MAX_SIZE:
            _keep(self._results, key, result)
        return result

    def preview(self, database: Database, identity: Hashable, sql: str, limits: QueryLimits, rows: int) -> str:
        """Return the result of `sql` as text with at most `rows` rows; otherwise like `query`."""
        key = (identity, sql, limits, rows)
        known = self._previews.get(key)
        if known is not None:
            return known
        text = show_result(self.query(database, identity, sql, limits), rows)
        if key[:3] in self._results:
            _keep(self._previews, key, text)
        return text

    def clear(self) -> None:
        """Forget everything."""
        self._results.clear()
        self._previews.clear()


def _keep(known: OrderedDict[Hashable, _T], key: Hashable, value: _T) -> None:
    known[key] = value
    if len(known) > MAX_ENTRIES:
        known.popitem(last=False)


def _may_change(sql: str) -> bool:
    text = sql.lower()
    return any(word in text for word in _CHANGES)


def _size(result: QueryResult) -> int:
    return sum(len(cell) if isinstance(cell, str) else 8 for row in result.rows for cell in row)
