"""Builds, opens (locked down) and inspects DuckDB database files. Runs in the worker."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import duckdb

from agentgym.tools.database.statements import quote_name
from agentgym.tools.database.wire import decode_value

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
