"""Makes an in-process SQLite connection safe for a model's statements: no writes, no files, no endless steps."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

from agentgym.tools.database.results import MAX_COLUMNS

ALLOWED = "one SELECT (also WITH, VALUES or EXPLAIN QUERY PLAN of a SELECT) is allowed"

MAX_LENGTH = 250_000
"""Longest string, blob or row. Small, because an operation on one string cannot be interrupted."""
MAX_PRODUCT = 50_000_000
"""Maximum product of argument lengths for functions that compare all pairs of characters."""
HEAP_LIMIT_BYTES = 1 << 30
"""For all SQLite databases of the process together; this process-wide setting can only be lowered."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_LENGTH,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
}
_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE},
)
_FUNCTIONS_DENIED = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "json_patch"})
_WIDE_NUMBER = re.compile(r"\d{5,}")


def guard(connection: sqlite3.Connection, helper: sqlite3.Connection) -> None:
    """Restrict `connection` to reading its own tables, in small steps.

    Args:
        connection: The connection for a model's statements.
        helper: An empty database in the same thread that computes the bounded functions.
    """
    # Temporary results go to files: an in-memory sort is a single operation that cannot be interrupted.
    for pragma in ("query_only = 1", "trusted_schema = 0", "temp_store = 1", "cell_size_check = 1"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.execute(f"PRAGMA hard_heap_limit = {HEAP_LIMIT_BYTES}").close()
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    helper.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
    _install_functions(connection, helper)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action not in _ACTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS_DENIED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith("pragma_"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _install_functions(connection: sqlite3.Connection, helper: sqlite3.Connection) -> None:
    """Replace built-in functions that can take seconds per call with equivalent bounded ones."""

    def bounded(name: str, check: Callable[..., None]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            check(*arguments)
            marks = ", ".join("?" * len(arguments))
            return helper.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

        return call

    for name in ("printf", "format"):
        connection.create_function(name, -1, bounded(name, _check_format), deterministic=True)
    for name in ("trim", "ltrim", "rtrim", "instr"):
        connection.create_function(name, 2, bounded(name, _check_product), deterministic=True)
    connection.create_function("replace", 3, bounded("replace", _check_product), deterministic=True)


def _check_format(*arguments: Any) -> None:
    if not arguments:
        return
    if _WIDE_NUMBER.search(str(arguments[0])):
        raise ValueError("width too large")
    if "*" in str(arguments[0]) and any(isinstance(value, int) and abs(value) > 9999 for value in arguments[1:]):
        raise ValueError("width too large")


def _check_product(first: Any, second: Any, *rest: Any) -> None:
    if isinstance(first, str | bytes) and isinstance(second, str | bytes) and len(first) * len(second) > MAX_PRODUCT:
        raise ValueError("arguments too large")
