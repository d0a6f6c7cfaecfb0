"""Temporary folders of sandboxes, locked while in use, so that abandoned ones can be recognised and removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from pathlib import Path

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
