"""`Growth`: how much the files of a server grow while statements run."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_BETWEEN_S = 0.5
_BLOCK = 512


class TooMuch(Exception):
    """The files have grown by more than they may."""


class Growth:
    """Watches a folder from now on.

    Args:
        folder: The folder of the server.
        most: Bytes that its files may grow by.
    """

    def __init__(self, folder: Path, most: int):
        self._folder, self._most = folder, most
        self._first = _size(folder)
        self._looked = time.monotonic()

    def check(self) -> None:
        """Raise `TooMuch` if the files have grown too much; looks at them twice a second."""
        now = time.monotonic()
        if now - self._looked >= _BETWEEN_S:
            self._looked = now
            if _size(self._folder) - self._first > self._most:
                raise TooMuch


def _size(folder: Path) -> int:
    """Return the bytes that files take; the server removes some of them meanwhile."""
    size = 0
    for above, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                size += os.lstat(Path(above, name)).st_blocks * _BLOCK
    return size
