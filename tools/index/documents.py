"""Streams documents from files: JSON Lines, Parquet, and folders of text."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError, require
from agentgym.tools.index.base import Document

_ID_KEYS = ("id", "_id", "docid")
_TEXT_KEYS = ("text", "contents", "body")
_JSON_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_TEXT_ENDINGS = (".txt", ".md")

_Placed = tuple[str, Document]
"""A document's location, for messages, and the document."""


def read_documents(*sources: str | Path) -> Iterator[Document]:
    """Yield the documents of files and folders.

    Args:
        sources: JSON Lines (`.jsonl`, `.ndjson`, also `.gz`), Parquet (`.parquet`), or folders with `.txt` and `.md`
            files at any depth. A record has an id (`id`, `_id` or `docid`), a text (`text`, `contents` or `body`) and
            maybe a `title`; its other keys become fields. Contents such as `"Title"\\ntext` are split. A file in
            a folder gets its path as its id, and its first heading or its name as its title.

    Raises:
        UsageError: A source or a record cannot be read, or an id is duplicated; the message says where.
    """
    ids: set[str] = set()
    for source in sources:
        for place, document in _read(Path(source)):
            if document.id in ids:
                raise UsageError(f"{place}: the id {document.id!r} is already in use; ids must be unique")
            ids.add(document.id)
            yield document


def document_of(record: Mapping[str, Any]) -> Document:
    """Return the document that a record describes.

    Raises:
        UsageError: The record has no id or no text.
    """
    id_key = _first_key(record, _ID_KEYS, "id")
    text_key = _first_key(record, _TEXT_KEYS, "text")
    text, title = record[text_key], record.get("title") or ""
    if not isinstance(text, str) or not isinstance(title, str):
        raise UsageError(f"{text_key!r} and 'title' must be strings")
    if not title and text_key == "contents":
        title, text = _split_contents(text)
    used = {id_key, text_key, "title"}
    fields = {key: _as_text(value) for key, value in record.items() if key not in used and value is not None}
    return Document(_as_text(record[id_key]), title, text, fields)


def _read(source: Path) -> Iterator[_Placed]:
    if source.is_dir():
        return _read_folder(source)
    if not source.is_file():
        raise UsageError(f"cannot read documents from {str(source)!r}: no such file or folder")
    if source.name.endswith(_JSON_ENDINGS):
        return _read_json_lines(source)
    if source.suffix == ".parquet":
        return _read_parquet(source)
    endings = ", ".join([*_JSON_ENDINGS, ".parquet"])
    raise UsageError(f"cannot read documents from {str(source)!r}; supported are: {endings}, and folders")


def _read_json_lines(path: Path) -> Iterator[_Placed]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(_unpacked(lines, path), start=1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{place}: this line is not JSON: {error}") from None
            yield place, _document_at(place, record)


def _unpacked(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    try:
        yield from lines
    except (EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"{path}: the compressed file is corrupt: {error}") from None


def _read_parquet(path: Path) -> Iterator[_Placed]:
    require("pyarrow", "search")
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise UsageError(f"{path}: this is not a Parquet file: {error}") from None
    number = 0
    with file:
        for batch in file.iter_batches(batch_size=1_000):
            for record in batch.to_pylist():
                number += 1
                place = f"{path}, row {number}"
                yield place, _document_at(place, record)


def _read_folder(folder: Path) -> Iterator[_Placed]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _TEXT_ENDINGS and path.is_file())
    if not paths:
        raise UsageError(f"there are no {' or '.join(_TEXT_ENDINGS)} files in {str(folder)!r}")
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: this is not UTF-8 text: {error}") from None
        yield str(path), Document(path.relative_to(folder).as_posix(), _heading(text) or path.stem, text)


def _document_at(place: str, record: Any) -> Document:
    if not isinstance(record, dict):
        raise UsageError(f"{place}: a document must be an object with an id and a text, not {type(record).__name__}")
    try:
        return document_of(record)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _first_key(record: Mapping[str, Any], keys: tuple[str, ...], what: str) -> str:
    for key in keys:
        if record.get(key) is not None:
            return key
    raise UsageError(f"there is no {what}; one of these keys must contain it: {', '.join(keys)}")


def _split_contents(contents: str) -> tuple[str, str]:
    first, line_end, rest = contents.partition("\n")
    if line_end and len(first) > 1 and first[0] == first[-1] == '"':
        return first[1:-1], rest
    return "", contents


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _heading(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first.lstrip("#").strip() if first.startswith("#") else ""
