"""The SQLite engine: in process, with one read-only connection per running statement."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits, QueryResult
from agentgym.tools.database.results import (
    MAX_COLUMNS,
    collect,
    forbidden,
    header,
    quote_name,
    shorten,
    too_much_memory,
    too_slow,
    unrepeatable,
)
from agentgym.tools.database.schema import DatabaseSpec, Table, Value
from agentgym.tools.database.shared import TRUSTED_LIMITS, schema_of
from agentgym.tools.database.sqlite.files import TYPE_NAMES, build, introspect, open_file, open_memory

MAX_COPIES = 20_000
"""Maximum size of an expanded statement (planning it takes about 0.1 s)."""
MAX_EXPRESSIONS = 100
"""Maximum number of common table expressions in a statement."""

_TOKEN = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|\w+|\S""", re.DOTALL)
_Span = tuple[int, int]


def check_expansion(sql: str) -> None:
    """Raise `QueryError` if the common table expressions of `sql` expand too far."""
    if "with" not in sql.lower():
        return
    tokens = [token.strip('"`[]').lower() for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*", "'"))]
    bodies = _bodies(tokens)
    if sum(map(len, bodies.values())) > MAX_EXPRESSIONS:
        raise _too_complex()
    sizes: dict[str, int] = {}

    def size(span: _Span) -> int:
        total = 1
        for index in range(*span):
            name = tokens[index]
            if name in bodies and tokens[index + 1 : index + 2] != ["."]:
                if name not in sizes:
                    sizes[name] = 1  # a recursive reference is not a copy
                    sizes[name] = max(map(size, bodies[name]))
                total += sizes[name]
            if total > MAX_COPIES:
                raise _too_complex()
        return total

    size((0, len(tokens)))


def _too_complex() -> QueryError:
    return QueryError(
        "Too many nested references to common table expressions; write a simpler statement.", QueryErrorKind.TOO_LARGE
    )


def _bodies(tokens: list[str]) -> dict[str, list[_Span]]:
    """Return the spans of the bodies after `AS (` or `(columns) AS (`, by name."""
    partner = _partners(tokens)
    bodies: dict[str, list[_Span]] = {}
    for index, token in enumerate(tokens):
        if token != "as":
            continue
        start = index + 1
        while tokens[start : start + 1] in (["not"], ["materialized"]):
            start += 1
        if tokens[start : start + 1] != ["("]:
            continue
        name = index - 1
        if name >= 0 and tokens[name] == ")":
            name = partner.get(name, 0) - 1
        if name >= 0:
            bodies.setdefault(tokens[name], []).append((start, partner.get(start, len(tokens))))
    return bodies


def _partners(tokens: list[str]) -> dict[int, int]:
    """Return the position of each parenthesis's partner."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token == "(":
            opened.append(index)
        elif token == ")" and opened:
            start = opened.pop()
            partner[start], partner[index] = index, start
    return partner


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
_UNREPEATABLE = frozenset({"random", "randomblob", "changes", "total_changes", "last_insert_rowid"})
NOW = "2024-01-01 00:00:00"
"""The date and time of every statement, so that a query about today has the same result every day."""
_ASKS_FOR_TIME = re.compile(
    r"now|current_|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)|\bstrftime\s*\([^,()]*\)", re.IGNORECASE
)
_FUNCTIONS_DENIED = _UNREPEATABLE | frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "json_patch"}
)
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


def stop_clock(connection: sqlite3.Connection, helper: sqlite3.Connection) -> None:
    """Make the date and time functions of a connection return `NOW` as the current time. It makes them slower."""

    def stopped(name: str, place: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            values = [NOW if isinstance(value, str) and value.lower() == "now" else value for value in arguments]
            values += [NOW] * (len(values) == place)
            return helper.execute(f"SELECT {name}({', '.join('?' * len(values))})", values).fetchone()[0]

        return call

    for name in ("date", "time", "datetime", "julianday", "unixepoch"):
        connection.create_function(name, -1, stopped(name, 0), deterministic=True)
    connection.create_function("strftime", -1, stopped("strftime", 1), deterministic=True)
    if sqlite3.sqlite_version_info >= (3, 43):
        connection.create_function("timediff", 2, stopped("timediff", -1), deterministic=True)
    for name, value in (("date", NOW[:10]), ("time", NOW[11:]), ("timestamp", NOW)):
        connection.create_function(f"current_{name}", 0, lambda value=value: value, deterministic=True)


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


PROGRESS_OPS = 250
"""Virtual machine steps between two checks of the deadline."""
MAX_IDLE_CONNECTIONS = 8

_BROKEN = {
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERNAL,
}  # fmt: skip
_numbers = itertools.count()


class _Connection:
    """A guarded connection with a deadline for its running statement."""

    def __init__(self, raw: sqlite3.Connection):
        self.raw = raw
        self.deadline = 0.0
        self._helper = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        try:
            guard(raw, self._helper)
        except BaseException:
            self.close()
            raise
        self._clock_runs = True
        raw.set_progress_handler(lambda: time.monotonic() > self.deadline, PROGRESS_OPS)

    def prepare(self, sql: str, timeout_s: float) -> None:
        """Prepare for a statement, which may take `timeout_s` seconds."""
        self.deadline = time.monotonic() + timeout_s
        if self._clock_runs and _ASKS_FOR_TIME.search(sql):
            stop_clock(self.raw, self._helper)
            self._clock_runs = False

    def close(self) -> None:
        self.raw.close()
        self._helper.close()


class SqliteDatabase:
    """A database in memory (from a spec) or a file; each running statement borrows a connection."""

    engine = "sqlite"

    def __init__(self, source: DatabaseSpec | Path):
        self._source = source
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._closed = False
        self._counts: dict[str, int] = {}
        self._memory: sqlite3.Connection | None = None
        self._memory_name = ""
        try:
            if isinstance(source, DatabaseSpec):
                self.schema = schema_of(source, TYPE_NAMES)
                self._counts = {table.name: len(table.rows) for table in source.tables}
                self._fill(source)
            else:
                with contextlib.closing(open_file(source)) as connection:
                    self.schema: tuple[Table, ...] = introspect(connection)
        except sqlite3.Error as error:
            raise UsageError(f"cannot open database {source.name!r}: {error}") from error

    def run(self, sql: str, limits: QueryLimits) -> QueryResult:
        """Run one statement on a separate connection."""
        check_expansion(sql)
        with self._connection() as connection:
            started = time.perf_counter()
            connection.prepare(sql, limits.timeout_s)
            cursor = connection.raw.cursor()
            try:
                cursor.execute(sql)
                columns = header((item[0] for item in cursor.description or ()), limits)
                rows, truncated = collect(cursor.fetchmany, limits)
            except MemoryError as error:
                raise too_much_memory(limits) from error
            except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
                raise self._explain(error, sql, limits) from error
            finally:
                cursor.close()
            return QueryResult(columns, _types(rows, len(columns)), rows, truncated, time.perf_counter() - started)

    def row_count(self, table: str) -> int:
        """Return the number of rows; for a file, it is counted once."""
        if table not in self._counts:
            value = self.run(f"SELECT count(*) FROM {quote_name(table)}", TRUSTED_LIMITS).rows[0][0]
            self._counts[table] = int(str(value))
        return self._counts[table]

    def close(self) -> None:
        """Close the idle connections; a borrowed one is closed when it is returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            memory, self._memory = self._memory, None
        for connection in idle:
            connection.close()
        if memory is not None:
            memory.close()

    def after_fork(self) -> None:
        """In a forked child: drop what is shared with the parent (a file's read position, a lock) and reopen."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if isinstance(self._source, DatabaseSpec) and not self._closed:
            self._fill(self._source)

    def _fill(self, spec: DatabaseSpec) -> None:
        self._memory_name = f"agentgym-{os.getpid()}-{next(_numbers)}"
        self._memory = build(spec, self._memory_name)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[_Connection]:
        pid = os.getpid()
        with self._lock:
            if self._closed:
                raise UsageError(f"database {self._source.name!r} is closed; open it again")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        finally:
            with self._lock:
                keep = not self._closed and len(self._idle) < MAX_IDLE_CONNECTIONS and pid == os.getpid()
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _connect(self) -> _Connection:
        try:
            path = self._source
            return _Connection(open_file(path) if isinstance(path, Path) else open_memory(self._memory_name))
        except (sqlite3.Error, MemoryError) as error:
            raise InfrastructureError(f"cannot open a SQLite connection: {error}") from error

    def _explain(self, error: Exception, sql: str, limits: QueryLimits) -> Exception:
        """Return the error to raise for the driver's `error`."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        message = shorten(str(error))
        if code == sqlite3.SQLITE_INTERRUPT:
            return too_slow(limits)
        if code == sqlite3.SQLITE_NOMEM:
            return too_much_memory(limits)
        if code in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY) or "not authorized" in message:
            what = message.partition("not authorized to use ")[2] or "This statement"
            if (name := what.rpartition(" ")[2]).lower() in _UNREPEATABLE:
                return unrepeatable(name)
            return forbidden(f"{what} is not allowed.", ALLOWED)
        if "one statement at a time" in message:
            return forbidden("The text contains several statements; send one at a time.", ALLOWED)
        if code in _BROKEN:
            return InfrastructureError(f"SQLite failed: {message}")
        if code == sqlite3.SQLITE_TOOBIG or any(mark in message for mark in ("too large", "too many", "overflow")):
            return QueryError(f"{message}; write a smaller statement.", QueryErrorKind.TOO_LARGE)
        if "user-defined function" in message:
            return QueryError("An argument of a text function is too large.", QueryErrorKind.TOO_LARGE)
        syntax = any(mark in message for mark in ("syntax error", "no such", "incomplete", "ambiguous", "unrecognized"))
        kind = QueryErrorKind.SYNTAX if syntax else QueryErrorKind.RUNTIME
        return QueryError(shorten(message + self._hint(message, sql)), kind)

    def _hint(self, message: str, sql: str) -> str:
        """Return a hint that lists the existing tables or columns."""
        if message.startswith("no such table"):
            return "; tables: " + ", ".join(table.name for table in self.schema)
        if message.startswith("no such column"):
            used = [table for table in self.schema if table.name.lower() in sql.lower()]
            return "".join(f"; {t.name} has {', '.join(c.name for c in t.columns)}" for t in used)
        return ""


def _types(rows: tuple[tuple[Value, ...], ...], width: int) -> tuple[str, ...]:
    """Return the storage class of each column's first non-NULL value."""
    names = {int: "INTEGER", float: "REAL", str: "TEXT"}
    return tuple(next((names[type(row[i])] for row in rows if row[i] is not None), "NULL") for i in range(width))
