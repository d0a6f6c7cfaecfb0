"""Reads files of entries in published formats: JSON lines, a JSON list or Parquet.

An unreadable entry is left out (`Quarantine`); an unreadable file is an error. No code of a file runs. NaN and
Infinity, which programs write for missing values, are read as null in every format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from agentgym.base.errors import MissingExtra, UsageError
from agentgym.base.json_lines import json_lines
from agentgym.base.strict_json import json_kind
from agentgym.core.task_files import Quarantine, Unusable

ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
"""Suffixes of files of entries."""
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_ROWS = 256


class NoEntries(UsageError):
    """A valid file that does not hold entries."""


@dataclass(frozen=True)
class Record:
    """A JSON object with its position in a file."""

    where: str
    """File and line (or number in the list), for messages."""
    fields: Mapping[str, Any]
    file: Path = Path()
    number: int = 0
    """Its line, or its number in the list."""

    def text(self, *names: str) -> str:
        """Return the first of the named fields that holds text. Raises `Unusable` if none does."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value
        raise Unusable(f"no text under {' or '.join(map(repr, names))}; it has {sorted(map(str, self.fields))}")

    def label(self, *names: str) -> str:
        """Return the first of the named fields that holds text or a number, as text; empty if none does."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
                return str(value).strip()
        return ""

    def get(self, name: str, type_: type, default: Any = None) -> Any:
        """Return a field of a type; a missing or null one is the default. Raises `Unusable`."""
        value = self.fields.get(name)
        value = default if value is None else value
        if value is None:
            raise Unusable(f"there is no {name!r}; it has {sorted(map(str, self.fields))}")
        if not isinstance(value, type_):
            raise Unusable(f"{name!r} must be {type_.__name__}, not {json_kind(value)}: {value!r:.60}")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a field that is a list of texts; a missing or null one is empty. Raises `Unusable`."""
        value = self.fields.get(name)
        value = [] if value is None else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise Unusable(f"{name!r} must be a list of texts, not {value!r:.60}")
        return value

    def records(self, name: str) -> list[Record]:
        """Return a field that is a list of objects. Raises `Unusable` if it is not."""
        return [
            Record(f"{self.where}, {name} {number}", as_object(item, f"{name} {number}"), self.file, number)
            for number, item in enumerate(self.get(name, list))
        ]


def as_object(value: Any, what: str = "the entry") -> Mapping[str, Any]:
    """Return the value if it is a JSON object. Raises `Unusable` if it is not."""
    if not isinstance(value, dict):
        raise Unusable(f"{what} must be an object, not {json_kind(value)}: {value!r:.60}")
    return value


def read_records(file: Path, quarantine: Quarantine) -> Iterator[Record]:
    """Yield the entries of a file that are objects.

    Raises:
        UsageError: The file cannot be read.
        NoEntries: The file holds a single object instead of entries.
        MissingExtra: The file is Parquet, and `pyarrow` is not installed.
    """
    start = _start(file)
    if start.startswith(_PARQUET):
        yield from _parquet(file)
    elif start.removeprefix(_BOM).lstrip().startswith(b"["):
        yield from _items(file, read_json(file), quarantine)
    elif (whole := whole_object(file)) is not None:
        raise NoEntries(f"{file}: expected a list of entries, not one object with {sorted(map(str, whole))[:8]}")
    else:
        for where, fields in json_lines(file, "an entry", on_fault=quarantine.add, nan_as_null=True):
            yield Record(where, fields, file, int(where.rpartition(":")[2]))


def read_json(file: Path) -> Any:
    """Return the content of a JSON file. Raises `UsageError` naming the file and the error."""
    try:
        return json.loads(read_text(file), parse_constant=lambda _: None)
    except RecursionError:
        raise UsageError(f"{file}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}") from None


def read_text(file: Path) -> str:
    """Return the text of a file, without a byte order mark. Raises `UsageError` if it is not UTF-8 text."""
    try:
        data = file.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{file}:{line}: not UTF-8 text (byte {data[error.start]:#04x}); convert the file, for example with: "
            "iconv -f LATIN1 -t UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{file}: a binary file, not text")
    return text


def files_in(folder: Path, *inside: str) -> list[Path]:
    """Return the files of a folder, and of subfolders named in `inside`, that have a suffix of `ENDINGS`."""
    places = [folder, *(folder / name for name in inside)]
    paths = (path for place in places if place.is_dir() for path in sorted(place.iterdir()))
    return [path for path in paths if path.suffix.lower() in ENDINGS and path.is_file()]


def existing(path: str | Path) -> Path:
    """Return the path if it exists. Raises `UsageError` if it does not."""
    path = Path(path)
    if not path.exists():
        raise UsageError(f"there is no file or folder {str(path)!r}")
    return path


def _start(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(256)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from error


def _items(file: Path, items: Iterable[Any], quarantine: Quarantine) -> Iterator[Record]:
    for number, item in enumerate(items):
        where = f"{file}: item {number}"
        if isinstance(item, dict):
            yield Record(where, item, file, number)
        else:
            quarantine.add(where, f"an entry must be an object, not {json_kind(item)}: {item!r:.60}")


def whole_object(file: Path) -> Mapping[str, Any] | None:
    """Return the object of a `.json` file that holds a single object, else `None`."""
    if file.suffix.lower() != ".json":
        return None
    try:
        value = json.loads(file.read_bytes(), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parquet(file: Path) -> Iterator[Record]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra(f"{file} is a Parquet file; to read it, run: pip install pyarrow") from error
    number = 0
    try:
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS):
            for fields in batch.to_pylist():
                yield Record(f"{file}: row {number}", _nan_as_null(fields), file, number)
                number += 1
    except (OSError, ValueError) as error:  # the base classes of pyarrow's own errors
        raise UsageError(f"{file}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _nan_as_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nan_as_null(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_nan_as_null, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value
