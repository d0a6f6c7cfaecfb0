"""Builds a whole database as data from a domain and a seed. The same pair always gives the same database."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.sql.domains import ColumnDecl, Role, TableDecl, load_domain
from agentgym.tools.database.schema import Column, DatabaseSpec, ForeignKey, Table, Value

_UNUSED_PARENTS = 0.15
"""Share of parent rows that no child refers to (from six parents on)."""


def column_values(
    column: ColumnDecl, rows: int, parents: Sequence[int], before: Mapping[str, Sequence[Value]], rng: Random
) -> list[Value]:
    """Draw the values of a column.

    Args:
        column: The column to draw.
        rows: Number of values.
        parents: Keys of the table that a foreign key refers to; empty for other columns.
        before: The columns of the same table that were drawn earlier, by name.
        rng: The source of randomness.
    """
    spec = column.spec
    match column.role:
        case Role.KEY:
            first = rng.choice((1, 1, 101, 1001))
            return list(range(first, first + rows))
        case Role.REF:
            values = _skewed(_used(parents, rng), rows, spec.get("skew", 0.7), rng)
        case Role.NAME:
            return list(_unique(spec, rows, rng))
        case Role.CATEGORY:
            values = _skewed(_categories(spec, rng), rows, spec.get("skew", 0.8), rng)
        case Role.DATE:
            values = _dates(spec, rows, before, rng)
        case Role.FLAG:
            values = [rng.random() < spec["share"] for _ in range(rows)]
        case Role.TEXT:
            values = [_pattern(spec["pattern"], rng) for _ in range(rows)]
        case _:
            values = [_number(column, rng) for _ in range(rows)]
    share = spec.get("missing", 0)
    return [None if share and rng.random() < share else value for value in values]


def _used(parents: Sequence[int], rng: Random) -> list[int]:
    unused = math.ceil(len(parents) * _UNUSED_PARENTS) if len(parents) >= 6 else 0
    return rng.sample(parents, len(parents) - unused)


def _skewed(choices: Sequence[Any], rows: int, skew: float, rng: Random) -> list[Value]:
    weights = [1 / (rank + 1) ** skew for rank in range(len(choices))]
    return rng.choices(choices, weights, k=rows)


def _categories(spec: Mapping[str, Any], rng: Random) -> list[str]:
    choices = _words(spec)
    return rng.sample(choices, min(len(choices), spec.get("take", 7)))


def _words(spec: Mapping[str, Any]) -> list[str]:
    return spec["of"] if "of" in spec else read_data("sql", "_pools")[spec["pool"]]


def _unique(spec: Mapping[str, Any], rows: int, rng: Random) -> list[str]:
    if "pattern" in spec:
        texts: dict[str, None] = {}
        while len(texts) < rows:
            texts[_pattern(spec["pattern"], rng)] = None
        return list(texts)
    if "parts" not in spec:
        return rng.sample(_words(spec), rows)
    pools = [part if isinstance(part, list) else read_data("sql", "_pools")[part] for part in spec["parts"]]
    return [" ".join(words) for words in rng.sample(list(product(*pools)), rows)]


def _pattern(pattern: str, rng: Random) -> str:
    """Return the pattern with a random digit for each `#` and a random letter for each `?`."""
    return "".join(
        str(rng.randrange(10)) if sign == "#" else rng.choice("ABCDEFGHKLMNPRSTVWX") if sign == "?" else sign
        for sign in pattern
    )


def _dates(spec: Mapping[str, Any], rows: int, before: Mapping[str, Sequence[Value]], rng: Random) -> list[Value]:
    if "after" in spec:
        low, high = spec["days"]
        return [
            start + datetime.timedelta(days=rng.randint(low, high)) if isinstance(start, datetime.date) else None
            for start in before[spec["after"]]
        ]
    first, last = spec["between"]
    return [first + datetime.timedelta(days=rng.randint(0, (last - first).days)) for _ in range(rows)]


def _number(column: ColumnDecl, rng: Random) -> int | float:
    spec = column.spec
    decimals, step = spec.get("decimals", 0), spec.get("step", 1)
    if "median" in spec:
        value = rng.lognormvariate(math.log(spec["median"]), spec.get("sigma", 0.5))
        value = min(max(value, spec.get("low", 0)), spec.get("high", math.inf))
    else:
        value = rng.uniform(spec["low"], spec["high"])
    if column.type == "DOUBLE":
        return round(value, decimals) if decimals else float(round(value / step) * step)
    return round(value / step) * step


ENGINE_KEY = "dialect"
"""The key of the database engine in a task's `data`. It stays as it is: the hashes of tasks depend on it."""


@lru_cache(maxsize=1024)
def generate_database(domain: str, seed: int) -> DatabaseSpec:
    """Return database number `seed` of `domain`. Raises `UsageError` if there is no such domain."""
    rng = Random(f"sql/{domain}/{seed}")
    tables: dict[str, Table] = {}
    for declared in load_domain(domain).tables:
        tables[declared.name] = _fill(declared, tables, rng)
    return DatabaseSpec(f"{domain}_{seed}", tuple(tables.values()))


def database_for(data: Mapping[str, Any]) -> DatabaseSpec:
    """Return the database that a task's `data` names."""
    return generate_database(data["domain"], data["database_seed"])


def _fill(declared: TableDecl, parents: Mapping[str, Table], rng: Random) -> Table:
    rows = rng.randint(*declared.rows)
    values: dict[str, list[Value]] = {}
    for column in declared.columns:
        values[column.name] = column_values(column, rows, _keys(parents, column.spec.get("to")), values, rng)
    return Table(
        name=declared.name,
        columns=tuple(Column(c.name, c.type, c.spec.get("about", "")) for c in declared.columns),
        rows=tuple(zip(*values.values(), strict=True)),
        primary_key=declared.key.name,
        foreign_keys=tuple(
            ForeignKey(c.name, c.spec["to"], parents[c.spec["to"]].primary_key or "") for c in declared.of(Role.REF)
        ),
    )


def _keys(parents: Mapping[str, Table], target: str | None) -> list[Any]:
    if target is None:
        return []
    table = parents[target]
    position = [column.name for column in table.columns].index(table.primary_key or "")
    return [row[position] for row in table.rows]
