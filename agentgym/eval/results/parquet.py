"""Writes episodes as a Parquet file, for data frames and SQL. Needs the extra `parquet`.

Rows are written in groups, so that memory does not grow with the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentgym import __version__
from agentgym.base.errors import UsageError, require
from agentgym.base.output_files import refuse_to_replace
from agentgym.core.trajectory import Trajectory
from agentgym.eval.results.columns import COLUMNS, SCHEMA_VERSION, Cell, ResultsPlace, row_of

ROWS = 1000
"""Largest number of rows in a group."""
TEXT = 32 * 2**20
"""Characters of JSON after which a group is written."""


def write_parquet(path: Path, episodes: Iterable[tuple[Trajectory, ResultsPlace]]) -> int:
    """Write episodes and return their number. An existing file is replaced once the new one is complete.

    Args:
        path: The file.
        episodes: Trajectories with their positions in a folder of results; consumed one at a time.

    Raises:
        MissingExtra: `pyarrow` is not installed.
        UsageError: The file cannot be written, or exists and is not such a file.
    """
    require("pyarrow", "data")
    refuse_to_replace(path, "a table of episodes", _is_ours)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        count = _write(unfinished, episodes)
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _is_ours(path: Path) -> bool:
    from pyarrow import ArrowInvalid, parquet

    try:
        return b"agentgym.schema" in (parquet.read_schema(path).metadata or {})
    except (ArrowInvalid, OSError):
        return False


def _write(path: Path, episodes: Iterable[tuple[Trajectory, ResultsPlace]]) -> int:
    import pyarrow
    from pyarrow import parquet

    schema, count = _schema(), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _groups(row_of(*episode) for episode in episodes):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
            count += len(rows)
    return count


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(row[column.name] or "") for column in COLUMNS if column.kind is Cell.JSON)
        if len(group) >= ROWS or size >= TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group


def _schema() -> Any:
    import pyarrow as pa

    types = {
        Cell.TEXT: pa.string(),
        Cell.WHOLE: pa.int64(),
        Cell.NUMBER: pa.float64(),
        Cell.YES_NO: pa.bool_(),
        Cell.TEXTS: pa.list_(pa.string()),
        Cell.NUMBERS: pa.map_(pa.string(), pa.float64()),
        Cell.WHOLES: pa.map_(pa.string(), pa.int64()),
        Cell.JSON: pa.string(),
    }
    columns = [pa.field(column.name, types[column.kind], metadata={"meaning": column.meaning}) for column in COLUMNS]
    return pa.schema(columns, {"agentgym.schema": str(SCHEMA_VERSION), "agentgym.version": __version__})
