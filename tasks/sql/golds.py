"""Checks gold queries by running them once: those that fail, or whose result can be guessed, are unusable.

Verdicts are cached in the cache folder, by database file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.base.cache import cache_folder
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.task_files import Why
from agentgym.tools.database import Database, QueryError, QueryLimits, QueryResult, open_file

_LIMITS = QueryLimits(timeout_s=10.0, max_rows=2)
"""Reading two rows shows whether a result has more than one. Slower queries cannot be graded anyway."""
_GUESSED = (None, 0, 1, "")
"""Values that answer too many questions: `SELECT 0` and `SELECT 1` would pass."""
_VERSION = 2


class Gold(NamedTuple):
    """A gold query and its database."""

    database: Path
    engine: str
    sql: str


class GoldQueryFault(NamedTuple):
    """The reason why a gold query is unusable."""

    why: Why
    reason: str


DEGENERATE = GoldQueryFault(Why.DEGENERATE, "an empty or constant query answers it")


def faults(golds: Sequence[Gold]) -> list[GoldQueryFault | None]:
    """Return, for each gold query, the reason why it is unusable, or `None`.

    It is `DEGENERATE` if it returns no row, nothing but NULL, or one row whose every cell is NULL, 0, 1 or empty
    text: an empty or constant query would return the same. It is broken if it fails or its database cannot be opened.
    """
    statements: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for gold in golds:
        statements[gold.database, gold.engine].append(gold.sql)
    verdicts = {place: _of_database(*place, queries) for place, queries in statements.items()}
    return [verdicts[gold.database, gold.engine][gold.sql] for gold in golds]


def is_degenerate(result: QueryResult) -> bool:
    """Return whether a result, given its first two rows, is empty or can be guessed completely."""
    rows = result.rows
    if all(cell is None for row in rows for cell in row):
        return True
    return len(rows) == 1 and not result.truncated and all(cell in _GUESSED for cell in rows[0])


def _of_database(path: Path, engine: str, queries: Sequence[str]) -> Mapping[str, GoldQueryFault | None]:
    """Return the verdicts on queries, running only those that are not in the cache."""
    file = _cache_file(path, engine)
    verdicts = _read(file)
    unknown = [sql for sql in dict.fromkeys(queries) if sql not in verdicts]
    if not unknown:
        return verdicts
    try:
        database = open_file(path, engine, _LIMITS)
    except (UsageError, InfrastructureError) as error:
        return dict.fromkeys(queries, GoldQueryFault(Why.BROKEN, str(error)))
    with closing(database):
        if not database.tables():
            return dict.fromkeys(queries, GoldQueryFault(Why.BROKEN, f"the database {str(path)!r} has no table"))
        verdicts |= {sql: _fault(database, sql) for sql in unknown}
    _write(file, verdicts)
    return verdicts


def _fault(database: Database, sql: str) -> GoldQueryFault | None:
    try:
        return DEGENERATE if is_degenerate(database.query(sql)) else None
    except QueryError as error:
        return GoldQueryFault(Why.BROKEN, f"its gold query fails: {' '.join(str(error).split())}")


def _cache_file(path: Path, engine: str) -> Path:
    stat = path.stat()
    identity = f"{_VERSION}|{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{engine}|{_LIMITS}|{_GUESSED}"
    return cache_folder() / "sql-golds" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def _read(file: Path) -> dict[str, GoldQueryFault | None]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        cached: Any = json.loads(file.read_text(encoding="utf-8"))
        return {
            sql: None if fault is None else GoldQueryFault(Why(fault[0]), str(fault[1]))
            for sql, fault in cached.items()
        }
    return {}


def _write(file: Path, cached: Mapping[str, GoldQueryFault | None]) -> None:
    """Cache verdicts, if the cache folder is writable."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(cached), encoding="utf-8")
        draft.replace(file)
