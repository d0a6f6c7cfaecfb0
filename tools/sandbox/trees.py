"""Folders that travel between host and workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import archive
from agentgym.tools.sandbox.agent.archive import Item


@dataclass(frozen=True)
class Snapshot:
    """The files of a workspace at one moment. The driver holds it, so nothing in a sandbox can change it."""

    data: bytes = field(repr=False)

    @property
    def files(self) -> dict[str, bytes]:
        """The contents of its regular files, by path."""
        return regular_files(self.data)


def packed(tree: Path | Mapping[str, bytes]) -> bytes:
    """Return a folder of the host, or contents by path, as an archive."""
    if isinstance(tree, Path):
        if not tree.is_dir():
            raise UsageError(f"there is no folder {str(tree)!r}")
        return archive.join(_items(tree))
    return archive.join(Item(_relative(path), "file", 0o644, data) for path, data in tree.items())


def regular_files(data: bytes) -> dict[str, bytes]:
    """Return the regular files of an archive that came from a sandbox."""
    try:
        return {item.path: item.data for item in archive.split(data) if item.kind == "file"}
    except archive.BadArchive as error:
        raise InfrastructureError(f"the sandbox sent no archive: {error}") from error


def _relative(path: str) -> str:
    if path.startswith("/") or "\0" in path or not path or ".." in path.split("/"):
        raise UsageError(f"{path!r} cannot be uploaded; use paths relative to the workspace")
    return path


def _items(top: Path) -> Iterator[Item]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top / folder) as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                path = f"{folder}/{entry.name}" if folder else entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    yield Item(path, "link", 0o777, os.fsencode(os.readlink(entry.path)))
                elif stat.S_ISDIR(mode):
                    yield Item(path, "dir", stat.S_IMODE(mode) | 0o700, b"")
                    waiting.append(path)
                elif stat.S_ISREG(mode):
                    yield Item(path, "file", stat.S_IMODE(mode) | 0o400, Path(entry.path).read_bytes())
