"""Builds a whole database as data from a domain and a seed. The same pair always gives the same database."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

from agentgym.tasks.sql.domains import Role, TableDecl, load_domain
from agentgym.tasks.sql.values import column_values
from agentgym.tools.database.schema import Column, DatabaseSpec, ForeignKey, Table, Value

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
