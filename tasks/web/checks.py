"""Progress predicates: SQL that evaluates to 1 once a part of a task is done, and to 0 before."""

from __future__ import annotations

from typing import Any


def check(name: str, sql: str, *params: Any) -> dict[str, str]:
    """Return a predicate: `sql` is a condition (or a query for one value), with `params` filled in for its `?`."""
    pieces = sql.split("?")
    if len(pieces) != len(params) + 1:
        raise ValueError(f"check {name!r} has {len(pieces) - 1} places for {len(params)} values: {sql!r}")
    filled = pieces[0] + "".join(literal(value) + piece for value, piece in zip(params, pieces[1:], strict=True))
    return {"name": name, "sql": f"SELECT coalesce(({filled}), 0) <> 0"}


def exists(name: str, table_and_condition: str, *params: Any) -> dict[str, str]:
    """Return the predicate that a row exists: `exists("ordered", "orders WHERE status = ?", "placed")`."""
    return check(name, f"SELECT count(*) FROM {table_and_condition}", *params)


def literal(value: Any) -> str:
    """Return a value as an SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return repr(int(value) if isinstance(value, bool) else value)
    return "'" + str(value).replace("'", "''") + "'"
