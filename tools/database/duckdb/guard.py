"""Checks which statements of a model DuckDB may run, beyond the engine's own read-only mode.

DuckDB's own lock-down still allows several statements at once, temporary objects, settings, and functions that run
SQL text or reveal the host's paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

from agentgym.tools.database.base import QueryError, QueryErrorKind
from agentgym.tools.database.statements import forbidden

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
# fmt: on
_WRITES = ("insert", "update", "delete", "merge")
_WORD = re.compile("[a-z][a-z0-9_]*")
"""Finds a name anywhere, even after digits and underscores."""
_EXPLAIN = re.compile(r"\s*explain\s+(?:analy[sz]e\s+)?(?:\([^()]*\)\s*)?", re.IGNORECASE)


class DuckDBGuard:
    """Checks statements before they run."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection.cursor()
        self._catalog, self._own = self._find_own_relations()
        self._hidden_relations = self._find_hidden_relations()
        # Only a text that contains one of these names can use it (DuckDB has no escapes in identifiers), so most
        # statements skip the walk through their syntax tree.
        self._suspicious = set(_WORD.findall(" ".join((*self._hidden_relations, *_HIDDEN_FUNCTIONS, *_WRITES))))

    def check(self, sql: str) -> duckdb.Statement:
        """Return the one statement in `sql`; raise `QueryError` if it is not allowed."""
        statement = self._only_statement(sql)
        if statement.type == duckdb.StatementType.EXPLAIN:
            explained = _EXPLAIN.sub("", sql, count=1)
            if explained == sql or self._only_statement(explained).type != duckdb.StatementType.SELECT:
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

    def _is_own(self, node: dict[str, Any]) -> bool:
        """Whether a node names a table of the database, which takes precedence over a built-in of the same name."""
        path = [*map(str, (node.get("qualified_name") or {}).get("path") or ())]
        path = path or [str(node.get(key) or "") for key in ("catalog_name", "schema_name", "table_name")]
        *qualifiers, name = path
        own_qualifiers = {"", "main", self._catalog}
        return node.get("type") == "BASE_TABLE" and name.lower() in self._own and own_qualifiers.issuperset(qualifiers)

    def _find_own_relations(self) -> tuple[str, frozenset[str]]:
        """Return the database's name, and the names of its tables and views."""
        rows = self._connection.execute(
            "SELECT current_database(), lower(table_name) FROM duckdb_columns()"
            " WHERE NOT internal AND schema_name = 'main' AND database_name = current_database()"
        ).fetchall()
        return (rows[0][0] if rows else ""), frozenset(name for _, name in rows)

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
