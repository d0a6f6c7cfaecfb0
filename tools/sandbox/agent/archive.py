"""Packs a folder into one byte string: a table of contents in JSON, then the contents. Used on both sides.

Unlike in tar, entries can only be folders, regular files and symbolic links, with relative paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from agentgym.tools.sandbox.agent.wire import LENGTH


class ArchiveItem(NamedTuple):
    """A file, folder or link of a workspace."""

    path: str
    kind: str
    """`"file"`, `"dir"` or `"link"`."""
    mode: int
    data: bytes
    """The content of a file, the target of a link."""


class BadArchive(ValueError):
    """The bytes are not an archive, or contain paths that lead outside."""


def join(items: Iterable[ArchiveItem]) -> bytes:
    """Pack items into an archive."""
    table, contents = [], []
    for item in items:
        table.append([item.path, item.kind, item.mode, len(item.data)])
        contents.append(item.data)
    text = json.dumps(table, separators=(",", ":")).encode("ascii")
    return b"".join([LENGTH.pack(len(text)), text, *contents])


def split(data: bytes) -> list[ArchiveItem]:
    """Return the items of an archive, with validated paths: relative, without `..` and NUL."""
    try:
        (size,) = LENGTH.unpack_from(data)
        table = json.loads(data[LENGTH.size : LENGTH.size + size])
        at, items = LENGTH.size + size, []
        for path, kind, mode, length in table:
            if length < 0 or at + length > len(data):
                raise BadArchive(f"the archive is truncated inside {path!r}")
            items.append(ArchiveItem(_checked(path), _checked_kind(kind), int(mode) & 0o777, data[at : at + length]))
            at += length
        return items
    except BadArchive:
        raise
    except Exception as error:
        raise BadArchive(f"not an archive: {error}") from None


def _checked(path: object) -> str:
    if not isinstance(path, str) or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise BadArchive(f"the archive contains the invalid path {path!r}")
    return path


def _checked_kind(kind: object) -> str:
    if kind not in ("file", "dir", "link"):
        raise BadArchive(f"the archive contains the unknown kind {kind!r}")
    return str(kind)
