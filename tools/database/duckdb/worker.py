"""The DuckDB worker: a separate process that opens databases and runs statements for its parent.

Run as `python -m agentgym.tools.database.duckdb.worker` in its own empty directory, which it removes when its
parent is gone. Speaks frames (`wire.py`) over stdin and stdout. Nothing else imports this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

import duckdb

from agentgym.tools.database import wire
from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits
from agentgym.tools.database.results import (
    collect,
    forbidden,
    header,
    quote_name,
    shorten,
    too_much_memory,
    too_slow,
    unrepeatable,
)
from agentgym.tools.database.wire import decode_value
from agentgym.tools.database.worker_limits import Watchdog, address_space, install_utc_timezones, resident_mb

_CONFIG = {
    "threads": "1",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
}
_SETTINGS = (
    "python_enable_replacements = false",
    "TimeZone = 'UTC'",
    "enable_external_access = false",
    "lock_configuration = true",  # last: no setting can change after it
)


@cache
def _few_threads() -> dict[str, str]:
    """Return the settings that prevent I/O threads: from DuckDB 2.0 on, each database would start eight."""
    with duckdb.connect(config={"threads": "1"}) as connection:
        setting = connection.execute("SELECT 1 FROM duckdb_settings() WHERE name = 'async_threads'").fetchone()
    return {"async_threads": "1"} if setting else {}


def build(path: str, tables: list[dict[str, Any]]) -> None:
    """Write a database file with `tables` (name, columns, primary_key, data by column)."""
    with duckdb.connect(path, config={"threads": "1", "temp_directory": "", **_few_threads()}) as connection:
        for table in tables:
            columns = [
                f"{quote_name(name)} {kind}" + (" PRIMARY KEY" if name == table["primary_key"] else "")
                for name, kind in table["columns"]
            ]
            connection.execute(f"CREATE TABLE {quote_name(table['name'])} ({', '.join(columns)})")
            if not table["data"] or not table["data"][0]:
                continue
            series = [f"unnest(?::{kind}[])" for _, kind in table["columns"]]
            values = [[decode_value(value) for value in column] for column in table["data"]]
            connection.execute(f"INSERT INTO {quote_name(table['name'])} SELECT {', '.join(series)}", values)


def lock_down(path: str, memory_mb: int) -> duckdb.DuckDBPyConnection:
    """Open `path` so that statements cannot write, access files or change settings.

    Args:
        path: The database file.
        memory_mb: DuckDB's memory limit for this database.
    """
    os.stat(path)
    config: dict[str, Any] = _CONFIG | _few_threads() | {"memory_limit": f"{memory_mb}MB"}
    connection = duckdb.connect(path, read_only=True, config=config)
    for setting in _SETTINGS:
        connection.execute(f"SET GLOBAL {setting}")  # applies to cursors too
    return connection


def introspect(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return name, columns, primary key and foreign keys of every table and view in the main schema."""
    columns = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main'"
        " ORDER BY table_oid, column_index"
    ).fetchall()
    constraints = connection.execute(
        "SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names"
        " FROM duckdb_constraints() WHERE schema_name = 'main'"
    ).fetchall()
    tables: dict[str, dict[str, Any]] = {}
    for table, column, kind in columns:
        entry = tables.setdefault(table, {"name": table, "columns": [], "primary_key": None, "foreign_keys": []})
        entry["columns"].append([column, kind])
    for table, kind, names, target, target_names in constraints:
        if kind == "PRIMARY KEY" and len(names) == 1:
            tables[table]["primary_key"] = names[0]
        elif kind == "FOREIGN KEY":
            tables[table]["foreign_keys"] += [[a, target, b] for a, b in zip(names, target_names, strict=True)]
    return list(tables.values())


ALLOWED = "one SELECT (also WITH, VALUES, FROM, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN of a SELECT) is allowed"

# fmt: off
_TABLE_FUNCTIONS = frozenset({
    "generate_series", "histogram", "histogram_values", "icu_calendar_names", "json_each", "json_tree",
    "pg_timezone_names", "pragma_table_info", "pragma_version", "range", "regexp_split_to_table", "repeat",
    "repeat_row", "summary", "unnest", "duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_indexes",
    "duckdb_keywords", "duckdb_schemas", "duckdb_tables", "duckdb_types", "duckdb_views",
})
_TABLES = frozenset({
    "duckdb_columns", "duckdb_constraints", "duckdb_indexes", "duckdb_schemas", "duckdb_tables", "duckdb_types",
    "duckdb_views", "sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema",
})
_HIDDEN_TABLES = frozenset({"pg_settings", "pg_prepared_statements", "pg_database"})
_HIDDEN_FUNCTIONS = frozenset({
    "current_setting", "getenv", "set_config", "write_log", "json_execute_serialized_sql", "json_serialize_plan",
    "parse_duckdb_log_message",
})
_CLOCK = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Functions that need no parentheses, unless a column has the name."""
_UNREPEATABLE = frozenset({
    "ago", "currval", "current_connection_id", "current_localtime", "current_localtimestamp", "current_query_id",
    "current_transaction_id", "gen_random_uuid", "get_current_time", "get_current_timestamp", "nextval", "now",
    "pg_conf_load_time", "pg_postmaster_start_time", "random", "reservoir_quantile", "setseed", "setval", "sleep_ms",
    "stats", "today", "transaction_timestamp", "txid_current", "uuid", "uuidv4", "uuidv7",
}) | _CLOCK
"""Functions whose result differs from run to run."""
# fmt: on
_SAMPLES = ("sample", "tablesample")
_WRITES = ("insert", "update", "delete", "merge")
_WORD = re.compile("[a-z][a-z0-9_]*")
"""Finds a name anywhere, even after digits and underscores."""
_EXPLAIN = re.compile(
    r"(?>\s|--[^\n]*\n|/\*.*?\*/)*+explain\s+((?:analy[sz]e\s+)?(?:\([^()]*\)\s*)?)", re.IGNORECASE | re.DOTALL
)
"""The beginning of an EXPLAIN, after comments only, with its options."""


class DuckDBGuard:
    """Checks statements before they run."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection.cursor()
        self._catalog, self._own, self._own_columns = self._find_own_names()
        self._hidden_relations = self._find_hidden_relations()
        # Only a text that contains one of these names can use it (DuckDB has no escapes in identifiers), so most
        # statements skip the walk through their syntax tree.
        names = (*self._hidden_relations, *_HIDDEN_FUNCTIONS, *_UNREPEATABLE, *_SAMPLES, "age", *_WRITES)
        self._suspicious = set(_WORD.findall(" ".join(names)))

    def check(self, sql: str) -> duckdb.Statement:
        """Return the one statement in `sql`; raise `QueryError` if it is not allowed."""
        statement = self._only_statement(sql)
        if statement.type == duckdb.StatementType.EXPLAIN:
            explain = _EXPLAIN.match(sql)
            if explain is not None and "analy" in explain[1].lower():
                raise forbidden("EXPLAIN ANALYZE shows times, which differ from run to run; use EXPLAIN.", ALLOWED)
            explained = sql if explain is None else sql[explain.end() :]
            if self._only_statement(explained).type != duckdb.StatementType.SELECT:
                raise forbidden("EXPLAIN is allowed for a SELECT only.", ALLOWED)
            self._check_tree(explained)
        elif statement.type == duckdb.StatementType.MULTI:
            raise forbidden("PIVOT needs its values listed: PIVOT t ON column IN (value, ...).", ALLOWED)
        elif statement.type != duckdb.StatementType.SELECT:
            raise forbidden(f"{statement.type.name} statements are not allowed.", ALLOWED)
        else:
            self._check_tree(sql)
        return statement

    def _only_statement(self, sql: str) -> duckdb.Statement:
        statements = self._connection.extract_statements(sql)
        if not statements:
            raise QueryError("The statement is empty; write one SELECT statement.", QueryErrorKind.SYNTAX)
        if len(statements) > 1:
            raise forbidden(f"The text contains {len(statements)} statements; send one at a time.", ALLOWED)
        return statements[0]

    def _check_tree(self, sql: str) -> None:
        if self._suspicious.isdisjoint(_WORD.findall(sql.lower())):
            return
        row = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        try:
            tree = json.loads(row[0]) if row else {"error": True}
        except RecursionError as error:
            raise QueryError("The statement is nested too deeply.", QueryErrorKind.TOO_LARGE) from error
        if tree.get("error"):
            raise forbidden("This form of statement is not allowed.", ALLOWED)
        for node in _nodes(tree):
            self._check_node(node)

    def _check_node(self, node: dict[str, Any]) -> None:
        kind = str(node.get("type", ""))
        if kind.endswith("_QUERY_NODE") and kind.lower().startswith(_WRITES):
            raise forbidden("A WITH clause may not write.", ALLOWED)
        hidden = _HIDDEN_FUNCTIONS
        if kind in ("BASE_TABLE", "TABLE_FUNCTION") and not self._is_own(node):
            hidden = hidden | self._hidden_relations
        if name := next((name for name in _names(node) if name in hidden), None):
            raise forbidden(f"{name!r} is not available.", ALLOWED)
        if name := self._unrepeatable(node):
            raise unrepeatable(name)

    def _unrepeatable(self, node: dict[str, Any]) -> str:
        """Return the part of a node whose result differs from run to run, or an empty text."""
        sample = node.get("sample")
        if isinstance(sample, dict) and sample.get("seed", -1) == -1:
            return "a sample without REPEATABLE (seed)"
        if node.get("type") == "COLUMN_REF":
            path = [str(part).lower() for part in node.get("column_names", ())]
            return path[0] if len(path) == 1 and path[0] in _CLOCK - self._own_columns else ""
        if node.get("type") == "BASE_TABLE":
            return ""
        if "age" in _names(node) and len(node.get("arguments") or node.get("children") or ()) == 1:
            return "age with one argument"
        return next((name for name in _names(node) if name in _UNREPEATABLE), "")

    def _is_own(self, node: dict[str, Any]) -> bool:
        """Whether a node names a table of the database, which takes precedence over a built-in of the same name."""
        path = [*map(str, (node.get("qualified_name") or {}).get("path") or ())]
        path = path or [str(node.get(key) or "") for key in ("catalog_name", "schema_name", "table_name")]
        *qualifiers, name = path
        own_qualifiers = {"", "main", self._catalog}
        return node.get("type") == "BASE_TABLE" and name.lower() in self._own and own_qualifiers.issuperset(qualifiers)

    def _find_own_names(self) -> tuple[str, frozenset[str], frozenset[str]]:
        """Return the database's name, the names of its tables and views, and those of their columns."""
        rows = self._connection.execute(
            "SELECT current_database(), lower(table_name), lower(column_name) FROM duckdb_columns()"
            " WHERE NOT internal AND schema_name = 'main' AND database_name = current_database()"
        ).fetchall()
        return (rows[0][0] if rows else ""), frozenset(row[1] for row in rows), frozenset(row[2] for row in rows)

    def _find_hidden_relations(self) -> frozenset[str]:
        functions = self._connection.execute(
            "SELECT lower(function_name) FROM duckdb_functions()"
            " WHERE internal AND function_type IN ('table', 'table_macro', 'pragma')"
        ).fetchall()
        views = self._connection.execute(
            "SELECT lower(view_name) FROM duckdb_views()"
            " WHERE internal AND schema_name NOT IN ('information_schema', 'pg_catalog')"
        ).fetchall()
        hidden = {name for (name,) in functions} - _TABLE_FUNCTIONS
        return frozenset(hidden | ({name for (name,) in views} - _TABLES) | _HIDDEN_TABLES)


def _names(node: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a node refers to, in the spellings of the different DuckDB versions."""
    function = node.get("function")
    for holder in (node, function if isinstance(function, dict) else {}):
        for key in ("table_name", "function_name"):
            yield str(holder.get(key, "")).lower()
        path = (holder.get("qualified_name") or {}).get("path")
        yield str(path[-1]).lower() if path else ""


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


RETIRE_MB = 1024
"""A worker is replaced when it keeps this much more memory than one statement may use."""

_OWN_TABLES = re.compile(r'\s*Did you mean "(?:pg_|duckdb_|sqlite_|pragma_|information_schema)[^"]*"\?')
"""A suggestion for a misspelt name that would lead the model away from the database's tables."""
_KINDS: tuple[tuple[type[BaseException], QueryErrorKind], ...] = (
    (duckdb.ParserException, QueryErrorKind.SYNTAX),
    (duckdb.SyntaxException, QueryErrorKind.SYNTAX),
    (duckdb.BinderException, QueryErrorKind.SYNTAX),
    (duckdb.CatalogException, QueryErrorKind.SYNTAX),
    (duckdb.PermissionException, QueryErrorKind.FORBIDDEN),
)


@dataclass
class _Open:
    connection: duckdb.DuckDBPyConnection
    guard: DuckDBGuard
    directory: str
    paths: tuple[str, ...]
    """Text that error messages must not reveal."""


class DuckDBWorker:
    """Keeps databases open and answers requests."""

    def __init__(self) -> None:
        self._databases: dict[str, _Open] = {}
        self._watchdog = Watchdog()
        self._home = os.getcwd()

    def answer(self, request: wire.Message) -> wire.Message:
        """Return the reply: `ok`, `error` (the statement failed), `refused` (the database did) or `broken` (we did)."""
        try:
            for name in request.get("close", ()):
                self._close(name)
            if request["op"] == "open":
                return {"ok": self._open(request)}
            return self._query(request)
        except duckdb.Error as error:
            return {"refused": shorten(_useful_lines(str(error)))}
        except (OSError, MemoryError) as error:
            return {"broken": shorten(f"{type(error).__name__}: {error}")}

    def _open(self, request: wire.Message) -> wire.Message:
        name = request["db"]
        directory = os.path.join(self._home, name)
        os.makedirs(directory)
        try:
            path = os.path.join(directory, "db.duckdb")
            if request["path"] is None:
                build(path, request["tables"])
            else:
                os.symlink(request["path"], path)
            connection = lock_down(path, request["memory_mb"])
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        paths = (os.path.realpath(path), path, self._home)
        self._databases[name] = _Open(connection, DuckDBGuard(connection), directory, paths)
        return {"tables": introspect(connection) if request["path"] is not None else []}

    def _close(self, name: str) -> None:
        if database := self._databases.pop(name, None):
            database.connection.close()
            shutil.rmtree(database.directory, ignore_errors=True)

    def _query(self, request: wire.Message) -> wire.Message:
        database = self._databases[request["db"]]
        limits = QueryLimits(**request["limits"])
        cursor = database.connection.cursor()
        started = time.perf_counter()
        try:
            with address_space(limits.memory_mb), self._watchdog.watch(cursor, limits.timeout_s):
                cursor.execute(database.guard.check(request["sql"]))
                description = cursor.description or ()
                columns = header((item[0] for item in description), limits)
                types = header((item[1] for item in description), limits)
                rows, truncated = collect(cursor.fetchmany, limits)
            reply: wire.Message = {
                "columns": columns,
                "types": types,
                "rows": wire.encode_rows(rows),
                "truncated": truncated,
                "elapsed_s": time.perf_counter() - started,
            }
            return {"ok": reply, "retire": resident_mb() > limits.memory_mb + RETIRE_MB}
        except (duckdb.InternalException, duckdb.FatalException):
            raise SystemExit(1) from None  # the database is now unusable; the parent starts a new process
        except (duckdb.Error, QueryError, MemoryError, RuntimeError, ValueError, ImportError) as error:
            problem = _explain(error, database, limits)
            retire = resident_mb() > limits.memory_mb + RETIRE_MB
            return {"error": {"kind": problem.kind.value, "message": str(problem)}, "retire": retire}
        finally:
            with contextlib.suppress(duckdb.Error):
                cursor.close()


def _explain(error: BaseException, database: _Open, limits: QueryLimits) -> QueryError:
    """Return the error to show the model."""
    if isinstance(error, QueryError):
        return error
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in str(error):
        return too_slow(limits)
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException) or "bad_alloc" in str(error):
        return too_much_memory(limits)
    message = _useful_lines(str(error))
    if "expression depth" in message:
        return QueryError("The statement is nested too deeply; write a simpler one.", QueryErrorKind.TOO_LARGE)
    for path in database.paths:
        message = message.replace(path, "db")
    if "read-only mode" in message:
        return forbidden("The statement would write.", ALLOWED)
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), QueryErrorKind.RUNTIME)
    if kind is QueryErrorKind.FORBIDDEN:
        return forbidden("Files, extensions and settings are not accessible.", ALLOWED)
    return QueryError(shorten(message), kind)


def _useful_lines(message: str) -> str:
    """Drop the echoed statement, Python's traceback, and suggestions that name the engine's own tables."""
    for mark in ("\n\nLINE ", "\nLINE ", "\nTraceback"):
        message = message.partition(mark)[0]
    return _OWN_TABLES.sub("", message)


def _read(stream: BinaryIO) -> wire.Message | None:
    header = stream.read(wire.HEADER.size)
    if len(header) < wire.HEADER.size:
        return None
    body = stream.read(wire.HEADER.unpack(header)[0])
    return wire.unpack(body)


def main() -> None:
    """Answer requests until the parent closes the pipe, then remove the working directory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and then closes the pipe
    install_utc_timezones()
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # library output must not look like a frame
    worker = DuckDBWorker()
    home = os.getcwd()
    message: wire.Message | None = {"ok": {"pid": os.getpid()}}
    while message is not None:
        try:
            replies.write(wire.pack(message))
            replies.flush()
        except BrokenPipeError:
            break
        request = _read(requests)
        message = worker.answer(request) if request is not None else None
    shutil.rmtree(home, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
