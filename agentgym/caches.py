"""The cache folder, for data that is costly to make but can always be rebuilt."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: `$AGENTGYM_CACHE`, or `agentgym` in the user's cache folder. It may not exist yet."""
    if path := os.environ.get("AGENTGYM_CACHE"):
        return Path(path).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agentgym"
