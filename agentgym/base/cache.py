"""The cache folder, for data that is costly to make but can always be rebuilt."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: `$AGENTGYM_CACHE`, or `agentgym` in the user's cache folder. It may not exist yet."""
    if path := os.environ.get("AGENTGYM_CACHE"):
        return Path(path).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agentgym"


def into_cache(source: Path, folder: Path) -> None:
    """Move a folder into the cache atomically. If another process got there first, its copy stays.

    Raises:
        OSError: The folder cannot be moved.
    """
    try:
        source.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(source)
