"""What keeps a model's statement on an in-process SQLite connection harmless: no writes, no files, no endless steps."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

from agentgym.tools.database.base import QueryError, QueryErrorKind

ALLOWED = "one SELECT (also WITH, VALUES or EXPLAIN QUERY PLAN of a SELECT) is allowed"

MAX_LENGTH = 250_000
"""Longest string, blob or row. Small, because an operation on one string cannot be interrupted."""
MAX_PRODUCT = 50_000_000
"""Bound on the work of functions that compare each character of one argument with each of another."""
MAX_EXPANSION = 20_000
"""How many copies of common table expressions a statement may unfold to; the planner cannot be interrupted."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_LENGTH,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
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


def guard(connection: sqlite3.Connection) -> None:
    """Let `connection` do nothing but read its own tables, in small steps."""
    for pragma in ("query_only = 1", "trusted_schema = 0", "temp_store = 1", "cell_size_check = 1"):
        connection.execute(f"PRAGMA {pragma}")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    _install_functions(connection)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action not in _ACTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS_DENIED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith("pragma_"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _install_functions(connection: sqlite3.Connection) -> None:
    """Replace the built-in functions whose single call can take seconds by bounded ones of the same meaning."""
    native = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    native.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)

    def bounded(name: str, check: Callable[..., None]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            check(*arguments)
            marks = ", ".join("?" * len(arguments))
            return native.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

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


_TOKEN = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|\w+|\S""", re.DOTALL)
_HEAD = re.compile(r"(?:not\s+)?materialized\s+", re.IGNORECASE)


def check_expansion(sql: str) -> None:
    """Refuse statements whose common table expressions unfold exponentially (each reference is a copy)."""
    tokens = [token.strip('"`[]').lower() for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*", "'"))]
    bodies = _bodies(tokens)
    if not bodies:
        return
    sizes: dict[str, int] = {}

    def size(start: int, end: int) -> int:
        total = 1
        for index in range(start, end):
            name = tokens[index]
            if name in bodies and tokens[index + 1 : index + 2] != ["."]:
                if name not in sizes:
                    sizes[name] = 1  # a recursive reference is no copy
                    sizes[name] = max(size(*span) for span in bodies[name])
                total += sizes[name]
            if total > MAX_EXPANSION:
                raise QueryError(
                    "Too many nested references to common table expressions; write a simpler statement.",
                    QueryErrorKind.TOO_LARGE,
                )
        return total

    size(0, len(tokens))


def _bodies(tokens: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Return for each name that stands before `AS (` or `(columns) AS (` where its body begins and ends."""
    bodies: dict[str, list[tuple[int, int]]] = {}
    for index, token in enumerate(tokens):
        if token != "as":
            continue
        start = index + 1
        while tokens[start : start + 1] in (["not"], ["materialized"]):
            start += 1
        if tokens[start : start + 1] != ["("]:
            continue
        name = index - 1
        if tokens[name] == ")":
            name = _opening(tokens, name) - 1
        if name >= 0:
            bodies.setdefault(tokens[name], []).append((start, _closing(tokens, start)))
    return bodies


def _closing(tokens: list[str], start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index], 0)
        if depth == 0:
            return index
    return len(tokens)


def _opening(tokens: list[str], end: int) -> int:
    depth = 0
    for index in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[index], 0)
        if depth == 0:
            return index
    return 0
