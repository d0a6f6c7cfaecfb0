"""Formats databases and results for a policy, in as few tokens as possible: no padding, no frames."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

from agentgym.tools.database.base import Database, QueryResult, TableInfo
from agentgym.tools.database.schema import Table

MAX_CELL_CHARS = 80
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "|": "\\|"})
_SPECIAL = re.compile(r"[\\\n\r|]")
_ELAPSED = ((1.0, "<1 s"), (10.0, "<10 s"))


def show_result(result: QueryResult, limit: int) -> str:
    """Return a typed header, at most `limit` rows, the number of rows, and a coarse bucket of the time."""
    return "\n".join([_header(result), *show_rows(result, limit), f"{_count(result, limit)}, {_elapsed(result)}"])


def show_rows(result: QueryResult, limit: int) -> list[str]:
    """Return the first rows, one line each."""
    return ["|".join(map(show_cell, row)) for row in result.rows[:limit]]


def show_cell(cell: Any) -> str:
    """Return a cell as text on one line."""
    if type(cell) is int:
        return str(cell)
    if cell is None:
        return "NULL"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return _float(cell)
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    if isinstance(cell, datetime.datetime):
        cell = cell.isoformat(sep=" ")
    text = str(cell)
    if _SPECIAL.search(text):
        text = text.translate(_ESCAPES)
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}…"


def show_table(info: TableInfo) -> str:
    """Return the columns with types and keys, the row count and the sample rows."""
    targets = {key.column: f" -> {key.target_table}.{key.target_column}" for key in info.foreign_keys}
    lines = [
        f"{column.name} {column.type}{' key' if column.name == info.primary_key else ''}{targets.get(column.name, '')}"
        for column in info.columns
    ]
    sample_count = len(info.sample.rows)
    count = f"{info.row_count} rows, the first {sample_count}:" if sample_count else f"{info.row_count} rows"
    return "\n".join([*lines, count, *show_rows(info.sample, sample_count)])


def show_schema(database: Database) -> str:
    """Return one line per table: `name(column TYPE, …)`, with keys."""
    return "\n".join(_signature(database.describe(table, 0)) for table in database.tables())


def _signature(table: TableInfo | Table) -> str:
    targets = {key.column: f" -> {key.target_table}.{key.target_column}" for key in table.foreign_keys}
    columns = (
        f"{c.name} {c.type}{' key' if c.name == table.primary_key else ''}{targets.get(c.name, '')}"
        for c in table.columns
    )
    return f"{table.name}({', '.join(columns)})"


def _header(result: QueryResult) -> str:
    return "|".join(f"{name} {kind}" for name, kind in zip(result.columns, result.types, strict=True))


def _count(result: QueryResult, limit: int) -> str:
    total = len(result.rows)
    if total <= limit and not result.truncated:
        return f"{total} row{'' if total == 1 else 's'}"
    return f"first {min(limit, total)} of {total}{'+' if result.truncated else ''} rows"


def _elapsed(result: QueryResult) -> str:
    return next((label for bound, label in _ELAPSED if result.elapsed_s < bound), ">10 s")


def _float(value: float) -> str:
    """Return a number with four decimals, or four significant digits if it is below 1."""
    if abs(value) >= 1e15 or not math.isfinite(value):
        return repr(value)
    if abs(value) >= 1 or value == 0:
        text = f"{value:.4f}".rstrip("0")
        return f"{text}0" if text.endswith(".") else text
    return f"{value:.4g}"
