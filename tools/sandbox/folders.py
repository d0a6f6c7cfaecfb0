"""Temporary folders of sandboxes, locked while in use, so that abandoned ones can be recognised and removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import archive
from agentgym.tools.sandbox.agent.archive import ArchiveItem
from agentgym.tools.sandbox.agent.remove import remove_at

_PREFIX = "agentgym-sandbox"
_NEW_S = 60.0
"""The owner of a folder this young may not have locked it yet."""


class LockedFolder:
    """A new folder, locked until it is closed and every process that inherited `lock` has exited."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=f"{_PREFIX}-")
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        os.chmod(self.path, 0o711)

    def close(self) -> None:
        """Remove the folder if it still exists."""
        remove(self.path)
        os.close(self.lock)


def remove(path: str) -> None:
    """Remove a folder with everything in it, at any depth; whatever cannot be removed stays."""
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            remove_at(parent, os.path.basename(path))
    finally:
        os.close(parent)


def sweep() -> None:
    """Remove the folders that killed processes left behind."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            state = os.fstat(fd)
            if os.geteuid() in (0, state.st_uid) and time.time() - state.st_mtime > _NEW_S:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(str(path))
        except OSError:
            continue  # in use
        finally:
            os.close(fd)


@dataclass(frozen=True)
class WorkspaceSnapshot:
    """The files of a workspace at one moment. The driver keeps it, so code in a sandbox cannot change it."""

    data: bytes = field(repr=False)

    @property
    def files(self) -> dict[str, bytes]:
        """The contents of the regular files, by path."""
        return regular_files(self.data)


def packed(tree: Path | Mapping[str, bytes]) -> bytes:
    """Pack a folder of the host, or contents by path, into an archive."""
    if isinstance(tree, Path):
        if not tree.is_dir():
            raise UsageError(f"no such folder: {str(tree)!r}")
        return archive.join(_items(tree))
    return archive.join(ArchiveItem(_relative(path), "file", 0o644, data) for path, data in tree.items())


def regular_files(data: bytes) -> dict[str, bytes]:
    """Return the regular files of an archive that came from a sandbox."""
    try:
        return {item.path: item.data for item in archive.split(data) if item.kind == "file"}
    except archive.BadArchive as error:
        raise InfrastructureError(f"the sandbox sent an invalid archive: {error}") from error


def _relative(path: str) -> str:
    if path.startswith("/") or "\0" in path or not path or ".." in path.split("/"):
        raise UsageError(f"{path!r} cannot be uploaded; use paths relative to the workspace")
    return path


def _items(top: Path) -> Iterator[ArchiveItem]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"{folder}/{entry.name}" if folder else entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    yield ArchiveItem(path, "link", 0o777, os.fsencode(os.readlink(entry.path)))
                elif stat.S_ISDIR(mode):
                    yield ArchiveItem(path, "dir", stat.S_IMODE(mode) | 0o700, b"")
                    waiting.append(path)
                elif stat.S_ISREG(mode):
                    yield ArchiveItem(path, "file", stat.S_IMODE(mode) | 0o400, Path(entry.path).read_bytes())
