"""Builds SQLite databases from plain data, opens files read-only, and inspects both."""

from __future__ import annotations

import datetime
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote as quote_path

from agentgym.tools.database.results import quote_name
from agentgym.tools.database.schema import Column, DatabaseSpec, ForeignKey, Table, Value

TYPE_NAMES = {"INTEGER": "INTEGER", "DOUBLE": "REAL", "VARCHAR": "TEXT", "DATE": "DATE", "BOOLEAN": "BOOLEAN"}
"""SQLite's declared type for each column type of a spec."""


def build(spec: DatabaseSpec, name: str) -> sqlite3.Connection:
    """Fill the process-wide memory database `name` with `spec`; it lives as long as the returned connection."""
    connection = open_memory(name)
    try:
        connection.execute("BEGIN")
        for table in spec.tables:
            connection.execute(f"CREATE TABLE {quote_name(table.name)} ({', '.join(_definitions(table))})")
            marks = ", ".join("?" * len(table.columns))
            rows = ([_stored(value) for value in row] for row in table.rows)
            connection.executemany(f"INSERT INTO {quote_name(table.name)} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def open_memory(name: str) -> sqlite3.Connection:
    """Open the memory database `name`, which all connections of the process share without copies."""
    return _connect(f"file:/{name}?vfs=memdb")


def serialized(source: DatabaseSpec | Path) -> bytes:
    """Return a database as the bytes of a database file."""
    connection = open_file(source) if isinstance(source, Path) else build(source, f"packing-{source.hash}")
    with closing(connection):
        return connection.serialize()


def _definitions(table: Table) -> list[str]:
    lines = [
        f"{quote_name(column.name)} {TYPE_NAMES[column.type]}"
        + (" PRIMARY KEY" if column.name == table.primary_key else "")
        for column in table.columns
    ]
    for key in table.foreign_keys:
        target = f"{quote_name(key.target_table)} ({quote_name(key.target_column)})"
        lines.append(f"FOREIGN KEY ({quote_name(key.column)}) REFERENCES {target}")
    return lines


def _stored(value: Value) -> Value:
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, datetime.date) else value


def open_file(path: Path) -> sqlite3.Connection:
    """Open `path` as read-only and immutable, so that SQLite needs no lock and no journal."""
    return _connect(f"file:{quote_path(str(path.resolve()))}?mode=ro&immutable=1")


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    connection.text_factory = decode
    return connection


def decode(data: bytes) -> str:
    """Decode stored text, whatever its bytes are."""
    return data.decode(errors="replace")


def introspect(connection: sqlite3.Connection) -> tuple[Table, ...]:
    """Return the tables and views of a database, without rows."""
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    tables = [_table(connection, name) for (name,) in names]
    keys = {table.name.lower(): table.primary_key for table in tables}
    return tuple(_resolved(table, keys) for table in tables)


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = connection.execute(f"PRAGMA table_info({quote_name(name)})").fetchall()
    foreign = connection.execute(f"PRAGMA foreign_key_list({quote_name(name)})").fetchall()
    primary = [row[1] for row in columns if row[5]]
    return Table(
        name=name,
        columns=tuple(Column(row[1], row[2]) for row in columns),
        rows=(),
        primary_key=primary[0] if len(primary) == 1 else None,
        foreign_keys=tuple(ForeignKey(row[3], row[2], row[4] or "") for row in reversed(foreign)),
    )


def _resolved(table: Table, primary_keys: dict[str, str | None]) -> Table:
    """Fill in the target columns of foreign keys that name only a table."""
    keys = tuple(
        ForeignKey(key.column, key.target_table, key.target_column or primary_keys.get(key.target_table.lower()) or "")
        for key in table.foreign_keys
    )
    return Table(table.name, table.columns, (), table.primary_key, keys)
