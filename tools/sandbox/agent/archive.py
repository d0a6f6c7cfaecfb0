"""Folders as one byte string: a table of contents in JSON, then the contents. Made and read on both sides.

Not tar: an entry here is a folder, a regular file or a symbolic link with a relative path, and can be nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from agentgym.tools.sandbox.agent.wire import LENGTH


class Item(NamedTuple):
    """A file, folder or link of a workspace."""

    path: str
    kind: str
    """`"file"`, `"dir"` or `"link"`."""
    mode: int
    data: bytes
    """The content of a file, the target of a link."""


class BadArchive(ValueError):
    """These bytes are no archive, or one with paths that lead elsewhere."""


def join(items: Iterable[Item]) -> bytes:
    """Return the items as one byte string."""
    table, contents = [], []
    for item in items:
        table.append([item.path, item.kind, item.mode, len(item.data)])
        contents.append(item.data)
    text = json.dumps(table, separators=(",", ":")).encode("ascii")
    return b"".join([LENGTH.pack(len(text)), text, *contents])


def split(data: bytes) -> list[Item]:
    """Return the items of an archive, every path checked: relative, without `..`, without NUL."""
    try:
        (size,) = LENGTH.unpack_from(data)
        table = json.loads(data[LENGTH.size : LENGTH.size + size])
        at, items = LENGTH.size + size, []
        for path, kind, mode, length in table:
            if length < 0 or at + length > len(data):
                raise BadArchive(f"the archive ends within {path!r}")
            items.append(Item(_checked(path), _known(kind), int(mode) & 0o777, data[at : at + length]))
            at += length
        return items
    except BadArchive:
        raise
    except Exception as error:
        raise BadArchive(f"not an archive: {error}") from None


def _checked(path: object) -> str:
    if not isinstance(path, str) or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise BadArchive(f"the archive names the path {path!r}")
    return path


def _known(kind: object) -> str:
    if kind not in ("file", "dir", "link"):
        raise BadArchive(f"the archive names the kind {kind!r}")
    return str(kind)
