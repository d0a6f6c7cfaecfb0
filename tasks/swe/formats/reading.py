"""Reading files of rows: JSON lines, a JSON list or Parquet, in a format that the fields of the first row tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from agentgym.choices import nearest
from agentgym.errors import MissingExtra, UsageError
from agentgym.tasks.swe.formats.multi import read_multi
from agentgym.tasks.swe.formats.r2e import read_r2e
from agentgym.tasks.swe.formats.row import Row
from agentgym.tasks.swe.formats.swebench import read_rebench, read_rebench_v2, read_swebench, read_swegym
from agentgym.tasks.swe.formats.swesmith import read_swesmith
from agentgym.tasks.swe.instance import Instance

_GYM_REPOS = frozenset(
    {
        "getmoto/moto",
        "project-monai/monai",
        "pandas-dev/pandas",
        "python/mypy",
        "dask/dask",
        "iterative/dvc",
        "conan-io/conan",
        "pydantic/pydantic",
        "facebookresearch/hydra",
        "bokeh/bokeh",
        "modin-project/modin",
    }
)


@dataclass(frozen=True)
class ReadResult:
    """What a file holds."""

    format: str
    """Name of the format that it is in."""
    instances: tuple[Instance, ...]


def _read_own(row: Row) -> Instance:
    try:
        return Instance.from_dict(row.fields)
    except UsageError as error:
        raise row.error(str(error)) from error


FORMATS: dict[str, Callable[[Row], Instance]] = {
    "agentgym": _read_own,
    "multi-swe-bench": read_multi,
    "r2e-gym": read_r2e,
    "swe-rebench-v2": read_rebench_v2,
    "swe-rebench": read_rebench,
    "swe-smith": read_swesmith,
    "swe-gym": read_swegym,
    "swe-bench": read_swebench,
}
"""Reader of a row, by format."""


def detect(fields: Mapping[str, Any]) -> str:
    """Return the format of a row. Raises `UsageError` if its fields fit none."""
    if {"gold_patch", "fail_to_pass"} <= fields.keys():
        return "agentgym"
    if {"org", "number", "fix_patch"} <= fields.keys():
        return "multi-swe-bench"
    if {"parsed_commit_content", "expected_output_json"} <= fields.keys():
        return "r2e-gym"
    if not {"instance_id", "repo", "patch"} <= fields.keys():
        raise UsageError(f"no known format has the fields {sorted(fields)}; there are: {', '.join(FORMATS)}")
    named = f"{fields.get('image_name')} {fields.get('repo')}".lower()
    if "install_config" in fields:
        return "swe-rebench-v2" if "swerebenchv2" in named or "language" in fields else "swe-rebench"
    if "swesmith" in named:
        return "swe-smith"
    listed = not isinstance(fields.get("FAIL_TO_PASS"), str)
    return "swe-gym" if listed and str(fields["repo"]).lower() in _GYM_REPOS else "swe-bench"


def read_row(fields: Mapping[str, Any], format: str | None = None, *, where: str = "row") -> Instance:
    """Read one row.

    Args:
        fields: The row.
        format: One of `FORMATS`; found out by the fields if left out.
        where: What messages call the row.
    """
    chosen = format or _detected(where, fields)
    if chosen not in FORMATS:
        raise UsageError(f"unknown format {chosen!r}{nearest(chosen, FORMATS)} There are: {', '.join(FORMATS)}")
    return FORMATS[chosen](Row(where, fields))


def read_any(path: str | Path, format: str | None = None) -> ReadResult:
    """Read a file of rows (JSON lines, a JSON list or Parquet) into instances.

    Args:
        path: The file.
        format: One of `FORMATS`; found out by the fields of the first row if left out.

    Raises:
        UsageError: A row cannot be read, or an id appears twice; names the line or the number of the row.
        MissingExtra: The file is Parquet and `pyarrow` is not installed.
    """
    instances: dict[str, Instance] = {}
    for where, fields in _rows(Path(path)):
        format = format or _detected(where, fields)
        instance = read_row(fields, format, where=where)
        if instance.id in instances:
            raise UsageError(f"{where}: id {instance.id!r} appears twice")
        instances[instance.id] = instance
    if format is None:
        raise UsageError(f"{str(path)!r} holds no rows")
    return ReadResult(format, tuple(instances.values()))


def _detected(where: str, fields: Mapping[str, Any]) -> str:
    try:
        return detect(fields)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a file with where they stand."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            yield from _parquet(path)
            return
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    if text.lstrip().startswith("["):
        yield from _json_list(path, text)
        return
    # Not splitlines: JSON strings may hold separators that it splits at.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", _object(f"{path}:{number}", line)


def _json_list(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a JSON list: {error}") from error
    for number, fields in enumerate(rows, start=1):
        if not isinstance(fields, dict):
            raise UsageError(f"{path}, row {number}: a row is a JSON object, not {str(fields)[:60]!r}")
        yield f"{path}, row {number}", fields


def _parquet(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra(f"{path} is a Parquet file; to read it, run: pip install pyarrow") from error
    number = 0
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=64):
        for fields in batch.to_pylist():
            number += 1
            yield f"{path}, row {number}", fields


def _object(where: str, line: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"{where}: a row is a JSON object, not {line[:60]!r}")
    return fields
