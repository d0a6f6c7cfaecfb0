"""A cache of query results and their text: databases are read-only, so no query needs to run twice.

The rollouts of a group send similar queries, and each is graded with the same gold query. There is one cache per
process, without locks, so forks and threads need no special care.
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
"""Size of the largest result to cache, in characters; a number counts as 8."""

_CHANGES = (
    "random", "uuid", "now", "today", "current", "local", "clock", "sequence", "nextval", "changes", "start", "version"
)  # fmt: skip
"""Words in statements whose result may change between runs."""


class Recall:
    """Cached results by database, statement and limits; the oldest are evicted first."""

    def __init__(self) -> None:
        self._results: OrderedDict[Hashable, QueryResult] = OrderedDict()
        self._previews: OrderedDict[Hashable, str] = OrderedDict()

    def query(self, database: Database, identity: Hashable, sql: str, limits: QueryLimits) -> QueryResult:
        """Return the result of `sql`. Raises what `database.query` raises; errors are not cached.

        Args:
            database: Where to run it.
            identity: Key that identifies the database's content.
            sql: One statement.
            limits: Bounds on it.
        """
        key = (identity, sql, limits)
        cached = self._results.get(key)
        if cached is not None:
            return cached
        result = database.query(sql, limits)
        if not _may_change(sql) and _size(result) <= MAX_SIZE:
            _keep(self._results, key, result)
        return result

    def preview(self, database: Database, identity: Hashable, sql: str, limits: QueryLimits, rows: int) -> str:
        """Return the result of `sql` as text with at most `rows` rows; otherwise like `query`."""
        key = (identity, sql, limits, rows)
        cached = self._previews.get(key)
        if cached is not None:
            return cached
        text = show_result(self.query(database, identity, sql, limits), rows)
        if key[:3] in self._results:
            _keep(self._previews, key, text)
        return text

    def clear(self) -> None:
        """Forget everything."""
        self._results.clear()
        self._previews.clear()


def _keep(cache: OrderedDict[Hashable, _T], key: Hashable, value: _T) -> None:
    cache[key] = value
    if len(cache) > MAX_ENTRIES:
        cache.popitem(last=False)


def _may_change(sql: str) -> bool:
    text = sql.lower()
    return any(word in text for word in _CHANGES)


def _size(result: QueryResult) -> int:
    return sum(len(cell) if isinstance(cell, str) else 8 for row in result.rows for cell in row)
