"""Temporary folders of sandboxes: locked as long as they are in use, so that forgotten ones can be told and removed."""

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
"""A folder this young may be one that its owner has not locked yet."""


class LockedFolder:
    """A new folder, locked until it is closed and everybody who was given `lock` has ended."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=f"{_PREFIX}-")
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        os.chmod(self.path, 0o711)

    def close(self) -> None:
        """Remove the folder, if anything is left of it."""
        remove(self.path)
        os.close(self.lock)


def remove(path: str) -> None:
    """Remove a folder with all that is in it, however deep; what cannot be removed stays."""
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            remove_at(parent, os.path.basename(path))
    finally:
        os.close(parent)


def sweep() -> None:
    """Remove the folders of processes that were killed before they could."""
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
