"""Converts an engine's cursor to bounded rows of plain values, with the same limits for both engines."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits
from agentgym.tools.database.schema import Value

BATCH_ROWS = 256
MAX_COLUMNS = 2_000


def to_value(value: Any) -> Value:
    """Convert a driver's value to a cell.

    Decimals stay exact; bytes become hex text, lists and structs JSON text. Times, intervals, UUIDs and timestamps with
    a time zone become text.
    """
    if value is None or isinstance(value, bool | int | float | str | Decimal):
        return value
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is None else value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple | dict):
        return _nested_text(value)
    return str(value)


def _nested_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_nested_leaf)
    except TypeError:  # a map with keys that JSON cannot represent
        return str(value)


def _nested_leaf(value: Any) -> Any:
    leaf = to_value(value)
    return float(leaf) if isinstance(leaf, Decimal) else str(leaf) if isinstance(leaf, datetime.date) else leaf


def header(texts: Iterable[object], limits: QueryLimits) -> tuple[str, ...]:
    """Return the columns' names or types, shortened like cells; raise `QueryError` if there are too many."""
    names = tuple(str(text)[: limits.max_cell_chars] for text in texts)
    if len(names) > MAX_COLUMNS:
        message = f"The result has {len(names)} columns; at most {MAX_COLUMNS} are allowed. Select fewer."
        raise QueryError(message, QueryErrorKind.TOO_LARGE)
    return names


def collect(
    fetch: Callable[[int], Sequence[Sequence[Any]]], limits: QueryLimits
) -> tuple[tuple[tuple[Value, ...], ...], bool]:
    """Fetch rows until one of `limits` is reached.

    Args:
        fetch: The cursor's `fetchmany`.
        limits: The limits on rows, cells and the whole result.

    Returns:
        The rows, and whether rows or parts of cells were left out.
    """
    rows: list[tuple[Value, ...]] = []
    clipped = False
    size = 0
    while True:
        batch = fetch(min(BATCH_ROWS, limits.max_rows + 1 - len(rows)))
        if not batch:
            return tuple(rows), clipped
        for raw in batch:
            if len(rows) >= limits.max_rows:
                return tuple(rows), True
            row, row_size, row_clipped = _bounded_row(raw, limits.max_cell_chars)
            size += row_size
            if size > limits.max_result_bytes:
                return tuple(rows), True
            clipped = clipped or row_clipped
            rows.append(row)


def _bounded_row(raw: Sequence[Any], max_chars: int) -> tuple[tuple[Value, ...], int, bool]:
    cells: list[Value] = []
    size = 0
    clipped = False
    for item in raw:
        cell = to_value(item)
        if isinstance(cell, str):
            if len(cell) > max_chars:
                cell, clipped = cell[:max_chars], True
            size += len(cell) if cell.isascii() else len(cell.encode(errors="replace"))
        else:
            size += 8
        cells.append(cell)
    return tuple(cells), size, clipped


MAX_MESSAGE_CHARS = 600


def check_text(sql: str, limits: QueryLimits) -> None:
    """Reject text that no engine should see: empty, too long, with NUL bytes or broken Unicode.

    Args:
        sql: The statement as the model wrote it.
        limits: Its `max_sql_bytes` bounds the text.
    """
    if not sql.strip().strip(";").strip():
        raise QueryError("The statement is empty; write one SELECT statement.", QueryErrorKind.SYNTAX)
    if "\0" in sql:
        raise QueryError("The statement contains a NUL character; remove it.", QueryErrorKind.SYNTAX)
    try:
        size = len(sql.encode())
    except UnicodeEncodeError as error:
        raise QueryError("The statement is not valid Unicode text.", QueryErrorKind.SYNTAX) from error
    if size > limits.max_sql_bytes:
        raise QueryError(
            f"The statement has {size} bytes; at most {limits.max_sql_bytes} are allowed. Write a shorter one.",
            QueryErrorKind.TOO_LARGE,
        )


def quote_name(name: str) -> str:
    """Return `name` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def shorten(message: str) -> str:
    """Return `message` on one line, shortened for the model."""
    text = " ".join(message.split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def forbidden(what: str, allowed: str) -> QueryError:
    """Return the error for a forbidden statement: `what` is wrong with it, and what is `allowed` instead."""
    return QueryError(f"{what} The database is read-only: {allowed}.", QueryErrorKind.FORBIDDEN)


def unrepeatable(what: str) -> QueryError:
    """Return the error for a statement whose result differs from run to run because of `what`."""
    return QueryError(
        f"{what} is not available, as its result differs from run to run; write a value, such as DATE '2024-01-31', or "
        "order by columns.",
        QueryErrorKind.FORBIDDEN,
    )


def too_slow(limits: QueryLimits) -> QueryError:
    """Return the error for a statement that exceeded its time limit."""
    return QueryError(
        f"The statement was stopped after {limits.timeout_s:g} s; make it cheaper (filter earlier, join on keys).",
        QueryErrorKind.TIMEOUT,
    )


def too_much_memory(limits: QueryLimits) -> QueryError:
    """Return the error for a statement that exceeded its memory limit."""
    return QueryError(
        f"The statement needs more than the allowed {limits.memory_mb} MB of memory; make it smaller.",
        QueryErrorKind.MEMORY,
    )
