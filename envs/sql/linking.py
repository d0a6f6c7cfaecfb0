"""Schema linking: whether a query speaks of the tables and columns that the gold query speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agentgym.tools.database.base import Database

_SKIPPED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_IDENTIFIER = re.compile(r'"([^"]+)"|`([^`]+)`|\[([^\]]+)\]|\b([^\W\d]\w*)\b(?!\s*\()')


@dataclass(frozen=True)
class Names:
    """The names a schema has, in lower case."""

    tables: frozenset[str]
    columns: frozenset[str]

    @classmethod
    def of(cls, database: Database) -> Names:
        """Read the names of a database."""
        tables = database.tables()
        columns = (column.name.lower() for table in tables for column in database.describe(table, 0).columns)
        return cls(frozenset(table.lower() for table in tables), frozenset(columns))


def linking(predicted: str, gold: str, names: Names) -> float:
    """Return the Jaccard index of the tables and columns that two queries name.

    A query is read word by word against the schema, which is a hundred times faster than parsing it; comments,
    strings and function names do not count. That it is valid SQL is for the engine to say, not for this function.
    """
    mine, theirs = mentioned(predicted, names), mentioned(gold, names)
    union = mine | theirs
    return len(mine & theirs) / len(union) if union else 0.0


@lru_cache(maxsize=1024)
def mentioned(sql: str, names: Names) -> frozenset[tuple[str, str]]:
    """Return the (kind, name) pairs of all tables and columns that `sql` names."""
    words = {name.lower() for name in _identifiers(_SKIPPED.sub(" ", sql))}
    tables = {("table", word) for word in words & names.tables}
    return frozenset(tables | {("column", word) for word in words & names.columns - names.tables})


def _identifiers(sql: str) -> Iterable[str]:
    return (next(filter(None, groups)) for groups in _IDENTIFIER.findall(sql))
