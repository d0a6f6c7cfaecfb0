"""Reads files of rows: JSON lines, a JSON list or Parquet, in a format detected from the fields of the first row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.choices import named
from agentgym.errors import UsageError
from agentgym.task_files.left_out import Quarantine
from agentgym.tasks.records import read_records
from agentgym.tasks.swe.formats.multi import read_multi
from agentgym.tasks.swe.formats.r2e import read_r2e
from agentgym.tasks.swe.formats.row import DataSetRow
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
    """The content of a file."""

    format: str
    """Name of its format."""
    instances: tuple[Instance, ...]


def _read_own(row: DataSetRow) -> Instance:
    try:
        return Instance.from_dict(row.fields)
    except UsageError as error:
        raise row.error(str(error)) from error


FORMATS: dict[str, Callable[[DataSetRow], Instance]] = {
    "agentgym": _read_own,
    "multi-swe-bench": read_multi,
    "r2e-gym": read_r2e,
    "swe-rebench-v2": read_rebench_v2,
    "swe-rebench": read_rebench,
    "swe-smith": read_swesmith,
    "swe-gym": read_swegym,
    "swe-bench": read_swebench,
}
"""Readers of rows, by format."""


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
        format: A name in `FORMATS`; detected from the fields if not given.
        where: Name of the row in messages.
    """
    format_name = format or _detected(where, fields)
    row = DataSetRow(where, fields)
    instance = named("format", format_name, FORMATS)(row)
    return instance if format_name == "agentgym" else _with_archive(row, instance)


def _with_archive(row: DataSetRow, instance: Instance) -> Instance:
    """Return an instance with the archive of its row, if the row names one.

    An image that the row does not name itself is the default of its data set, which the archive replaces.
    """
    archive = row.fields.get("archive")
    if archive is None:
        return instance
    if not isinstance(archive, str) or not archive:
        raise row.error(f"'archive' must be the path of a tar file or folder, not {archive!r:.60}")
    image = row.text("image_name", "docker_image", default="")
    return replace(instance, archive=archive, image=image or None)


def read_any(path: str | Path, format: str | None = None) -> ReadResult:
    """Read a file of rows (JSON lines, a JSON list or Parquet) into instances.

    Args:
        path: The file.
        format: A name in `FORMATS`; detected from the fields of the first row if not given.

    Raises:
        UsageError: A row cannot be read, or an id appears twice; names the line or the number of the row.
        MissingExtra: The file is Parquet and `pyarrow` is not installed.
    """
    instances: dict[str, Instance] = {}
    for record in read_records(Path(path), Quarantine(str(path), strict=True)):
        format = format or _detected(record.where, record.fields)
        instance = read_row(record.fields, format, where=record.where)
        if instance.id in instances:
            raise UsageError(f"{record.where}: id {instance.id!r} appears twice")
        instances[instance.id] = instance
    if format is None:
        raise UsageError(f"{str(path)!r} holds no rows")
    return ReadResult(format, tuple(instances.values()))


def _detected(where: str, fields: Mapping[str, Any]) -> str:
    try:
        return detect(fields)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
