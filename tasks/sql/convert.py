"""Converts SQLite databases and queries to DuckDB where that preserves their meaning.

A query is converted only if it returns the same rows from the copy of its database. Copies and conversion
results are cached in the cache folder, by database file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from agentgym.base.cache import cache_folder
from agentgym.base.errors import UsageError
from agentgym.core.answers.cells import same_rows
from agentgym.tools.database import Database, QueryError, QueryLimits, open_file
from agentgym.tools.database.results import quote_name
from agentgym.tools.database.schema import ForeignKey, Table
from agentgym.tools.database.sqlite.files import introspect
from agentgym.tools.database.sqlite.files import open_file as open_sqlite

if TYPE_CHECKING:
    from sqlglot.expressions import Expr  # a name that older releases lack


def to_duckdb(sql: str, names: frozenset[str]) -> str:
    """Return a SQLite query in DuckDB's SQL.

    Args:
        sql: The query.
        names: The names of all columns and tables, in lower case. SQLite treats other double-quoted text as a
            string.

    Raises:
        SqlglotError: The query cannot be read.
    """
    tree = sqlglot.parse_one(sql, read="sqlite")
    known_names = names | {
        alias.alias.lower() for alias in tree.find_all(exp.Alias, exp.TableAlias) if alias.name or alias.this
    }
    for column in list(tree.find_all(exp.Column)):
        if column.this.args.get("quoted") and not column.table and column.name.lower() not in known_names:
            column.replace(exp.Literal.string(column.name))
    for like in list(tree.find_all(exp.Like)):  # SQLite's LIKE ignores case
        like.replace(exp.ILike(**like.args))
    for select in tree.find_all(exp.Select):
        _spell_out_bare_columns(select)
    return tree.sql(dialect="duckdb", identify=True)


def _spell_out_bare_columns(select: exp.Select) -> None:
    """Make the choice of values of ungrouped columns explicit, which SQLite does not require.

    It comes from the row with the greatest (or least) value if the query asks for exactly one such value, else from any
    row.
    """
    places = [*select.expressions, *(select.args[key] for key in ("having", "order") if select.args.get(key))]
    aggregates = [call for place in places for call in place.find_all(exp.AggFunc) if _belongs(call, select)]
    grouping = _Grouping.of(select)
    if not aggregates and not grouping.parts:
        return
    extremes = {call.sql(): call for call in aggregates if isinstance(call, exp.Max | exp.Min)}
    extreme = next(iter(extremes.values())) if len(extremes) == 1 else None
    for place in places:
        if not grouping.holds_projection(place):
            for column in list(place.find_all(exp.Column)):
                if _belongs(column, select) and grouping.is_bare(column, place):
                    _replace(place, column, _any_value(column, extreme), select)


@dataclass(frozen=True)
class _Grouping:
    """The grouping of a SELECT."""

    select: exp.Select
    parts: tuple[Expr, ...]

    @classmethod
    def of(cls, select: exp.Select) -> _Grouping:
        """Return the grouping of a SELECT, which may have none."""
        group = select.args.get("group")
        return cls(select, tuple(group.expressions) if group is not None else ())

    def holds_projection(self, place: Expr) -> bool:
        """Return whether the query groups by a column of the result, by its name or number."""
        numbers = [number for number, part in enumerate(self.select.expressions, start=1) if part is place]
        names = {part.name.lower() for part in self.parts}
        is_named = isinstance(place, exp.Alias) and place.alias.lower() in names
        return is_named or any(str(number) in names for number in numbers)

    def is_bare(self, column: exp.Column, place: Expr) -> bool:
        """Return whether a column may have several values in a group, and the query does not choose one."""
        if isinstance(column.this, exp.Star) or isinstance(column.find_ancestor(exp.AggFunc, exp.Select), exp.AggFunc):
            return False
        if place not in self.select.expressions and not column.table and column.name.lower() in self._aliases:
            return False
        return not any(self._same(column, part) for part in self.parts)

    @property
    def _aliases(self) -> set[str]:
        return {part.alias.lower() for part in self.select.expressions if isinstance(part, exp.Alias)}

    @staticmethod
    def _same(column: exp.Column, part: Expr) -> bool:
        if not isinstance(part, exp.Column) or (column.table and part.table):
            return column.sql().lower() == part.sql().lower()
        return column.name.lower() == part.name.lower()


def _belongs(node: Expr, select: exp.Select) -> bool:
    """Return whether a part of a query belongs to this SELECT, and not to a nested one."""
    return node.find_ancestor(exp.Select) is select


def _any_value(column: exp.Column, extreme: Expr | None) -> Expr:
    if extreme is None:
        return exp.AnyValue(this=column.copy())
    name = "ARG_MAX" if isinstance(extreme, exp.Max) else "ARG_MIN"
    return exp.Anonymous(this=name, expressions=[column.copy(), extreme.this.copy()])


def _replace(place: Expr, column: exp.Column, value: Expr, select: exp.Select) -> None:
    if place is column:
        select.set("expressions", [value.as_(column.name) if part is column else part for part in select.expressions])
    else:
        column.replace(value)


_LIMITS = QueryLimits(timeout_s=10.0, max_rows=50_000, max_cell_chars=10_000, max_result_bytes=20_000_000)
_VERSION = 2
_BATCH = 20_000


@dataclass(frozen=True)
class Converted:
    """A query in DuckDB's SQL, or the reason why it cannot be converted."""

    sql: str | None
    problem: str = ""


def convert(path: Path, queries: Sequence[str]) -> tuple[Path, Mapping[str, Converted]]:
    """Return a DuckDB file with the content of a SQLite file, and the queries converted for it.

    Raises:
        UsageError: The database cannot be read or copied.
    """
    stat = path.stat()
    releases = [metadata.version(package) for package in ("duckdb", "sqlglot")]
    identity = f"{_VERSION}|{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{releases}"
    copy = cache_folder() / "sql-copies" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.duckdb"
    if not copy.is_file():
        _whole(copy, lambda draft: _copy(path, draft))
    notes = copy.with_suffix(".json")
    conversions = _read(notes)
    unknown = [sql for sql in dict.fromkeys(queries) if sql not in conversions]
    if unknown:
        with (
            closing(open_file(path, "sqlite", _LIMITS)) as source,
            closing(open_file(copy, "duckdb", _LIMITS)) as target,
        ):
            conversions |= {sql: _convert(sql, source, target) for sql in unknown}
        content = {sql: [converted.sql, converted.problem] for sql, converted in conversions.items()}
        with suppress(OSError):  # without a cache, the queries are converted again
            _whole(notes, lambda draft: draft.write_text(json.dumps(content), encoding="utf-8"))
    return copy, conversions


def _convert(sql: str, source: Database, target: Database) -> Converted:
    names = frozenset(name.lower() for name in _names(source))
    try:
        converted = to_duckdb(sql, names)
    except (SqlglotError, RecursionError, ValueError) as error:
        return Converted(None, f"it cannot be read as SQLite's: {_line(error)}")
    try:
        expected = source.query(sql)
    except QueryError as error:
        return Converted(None, f"it fails in SQLite: {_line(error)}")
    try:
        result = target.query(converted)
    except QueryError as error:
        return Converted(None, f"it fails in DuckDB: {_line(error)}")
    return (
        Converted(converted)
        if same_rows(result.rows, expected.rows)
        else Converted(None, "it returns other rows in DuckDB")
    )


def _names(database: Database) -> Iterator[str]:
    for table in database.tables():
        yield table
        yield from (column.name for column in database.describe(table, 0).columns)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:200]}…"


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, so that a killed process leaves no partial one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder, path.name)
        write(draft)
        os.replace(draft, path)


def _read(file: Path) -> dict[str, Converted]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {sql: Converted(*fields) for sql, fields in json.loads(file.read_text(encoding="utf-8")).items()}
    return {}


def _copy(path: Path, draft: Path) -> None:
    """Write the tables of a SQLite file into a new DuckDB file, without anything that DuckDB cannot hold."""
    try:
        with closing(open_sqlite(path)) as source, duckdb.connect(draft, config={"threads": "1"}) as target:
            done: dict[str, str | None] = {}
            for table in _targets_first(introspect(source)):
                for key, foreign in _constraints(table, done):
                    with suppress(duckdb.Error):
                        _copy_table(source, target, table, key, foreign)
                        done[table.name.lower()] = key
                        break
                    with suppress(duckdb.Error):
                        target.execute(f"DROP TABLE IF EXISTS {quote_name(table.name)}")
    except (duckdb.Error, OSError, ValueError) as error:
        raise UsageError(f"the database {str(path)!r} cannot be copied for DuckDB: {_line(error)}") from error
    except Exception as error:
        if type(error).__module__ != "sqlite3":
            raise
        raise UsageError(f"cannot open database {str(path)!r}: {_line(error)}") from error


def _targets_first(tables: Sequence[Table]) -> list[Table]:
    """Return tables in an order where targets of foreign keys come first, unless cycles prevent it."""
    waiting, ordered = list(tables), []
    while waiting:
        names = {table.name.lower() for table in waiting}
        free = [
            t for t in waiting if not any(k.target_table.lower() in names - {t.name.lower()} for k in t.foreign_keys)
        ]
        ordered += free or waiting
        waiting = [table for table in waiting if table not in ordered]
    return ordered


def _constraints(table: Table, done: Mapping[str, str | None]) -> Iterator[tuple[str | None, tuple[ForeignKey, ...]]]:
    """Yield sets of keys to try to declare, the largest first: SQLite does not enforce keys, so rows may break them."""
    enforced = tuple(
        key
        for key in table.foreign_keys
        if (done.get(key.target_table.lower()) or "").lower() == key.target_column.lower() and key.target_column
    )
    yield table.primary_key, enforced
    if enforced:
        yield table.primary_key, ()
    if table.primary_key is not None:
        yield None, ()


def _copy_table(source: Any, target: Any, table: Table, key: str | None, foreign: Sequence[ForeignKey]) -> None:
    name = quote_name(table.name)
    types = [_type_of(source, table.name, column.name, column.type) for column in table.columns]
    lines = [
        f"{quote_name(column.name)} {kind}" + (" PRIMARY KEY" if column.name == key else "")
        for column, kind in zip(table.columns, types, strict=True)
    ]
    lines += [
        f"FOREIGN KEY ({quote_name(k.column)}) REFERENCES {quote_name(k.target_table)} ({quote_name(k.target_column)})"
        for k in foreign
    ]
    target.execute(f"CREATE TABLE {name} ({', '.join(lines)})")
    reading = source.execute(f"SELECT * FROM {name}")
    insert = f"INSERT INTO {name} SELECT {', '.join(f'unnest(?::{kind}[])' for kind in types)}"
    while rows := reading.fetchmany(_BATCH):
        columns = [
            [value if value is None or kind != "VARCHAR" else str(value) for value in column]
            for column, kind in zip(zip(*rows, strict=True), types, strict=True)
        ]
        target.execute(insert, columns)


def _type_of(source: Any, table: str, column: str, declared: str) -> str:
    """Return a type that can hold all values of a column; SQLite types each value separately."""
    rows = source.execute(f"SELECT DISTINCT typeof({quote_name(column)}) FROM {quote_name(table)}").fetchall()
    kinds = {kind for (kind,) in rows} - {"null"}
    if kinds == {"integer"} or (not kinds and "INT" in declared.upper()):
        return "BIGINT"
    if kinds and kinds <= {"integer", "real"}:
        return "DOUBLE"
    if not kinds and any(word in declared.upper() for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return "DOUBLE"
    return "BLOB" if kinds == {"blob"} else "VARCHAR"
