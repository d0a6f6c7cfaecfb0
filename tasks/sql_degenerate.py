"""Gold queries whose result an empty or constant query returns as well: nothing can be learned or measured with them.

What a gold query returns is found out by running it, once: results are kept in the cache folder, by database file.
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

from agentgym.caches import cache_folder
from agentgym.errors import ToolError, UsageError
from agentgym.tools.database import Database, QueryLimits, QueryResult, open_file

_LIMITS = QueryLimits(timeout_s=10.0, max_rows=2)
"""Two rows are enough to see whether a result is one row or none. A query that takes longer cannot be graded anyway."""
_GUESSED = (None, 0, 1, "")
"""Values that are right far too often where a question has one: `SELECT 0` and `SELECT 1` would pass."""


class Gold(NamedTuple):
    """A gold query and the database that it asks."""

    database: Path
    dialect: str
    sql: str


def degenerate(golds: Sequence[Gold]) -> list[bool]:
    """Return for each gold query whether an empty or constant query would give the same result.

    That is so where it returns no row, nothing but NULL, or one row in which every cell is NULL, 0, 1 or empty text. A
    query that fails is not degenerate: grading it says what is wrong.
    """
    statements: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for gold in golds:
        statements[gold.database, gold.dialect].append(gold.sql)
    found = {place: _of_database(*place, asked) for place, asked in statements.items()}
    return [found[gold.database, gold.dialect][gold.sql] for gold in golds]


def is_degenerate(result: QueryResult) -> bool:
    """Whether a result, of which two rows are known, is empty or all of it can be guessed."""
    rows = result.rows
    if all(cell is None for row in rows for cell in row):
        return True
    return len(rows) == 1 and not result.truncated and all(cell in _GUESSED for cell in rows[0])


def _of_database(path: Path, dialect: str, asked: Sequence[str]) -> Mapping[str, bool]:
    """Return the verdicts on statements, running those that are not known from before."""
    file = _cache_file(path, dialect)
    known = _read(file)
    unknown = [sql for sql in dict.fromkeys(asked) if sql not in known]
    if not unknown:
        return known
    try:
        database = open_file(path, dialect, _LIMITS)
    except UsageError:
        return dict.fromkeys(asked, False)  # Whoever plays a task of it is told what is wrong with the file.
    with closing(database):
        known |= {sql: _is_degenerate_query(database, sql) for sql in unknown}
    _write(file, known)
    return known


def _is_degenerate_query(database: Database, sql: str) -> bool:
    try:
        return is_degenerate(database.query(sql))
    except ToolError:
        return False


def _cache_file(path: Path, dialect: str) -> Path:
    stat = path.stat()
    identity = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{dialect}|{_LIMITS}|{_GUESSED}"
    return cache_folder() / "sql-golds" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def _read(file: Path) -> dict[str, bool]:
    try:
        known: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(file: Path, known: dict[str, bool]) -> None:
    """Keep verdicts for the next time, if the cache folder can be written to."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(known), encoding="utf-8")
        draft.replace(file)
