"""Reads index folders that a builder may replace at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from agentgym.tools.index.manifest import manifest_stamp


class _Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


def steady(folder: Path, open_it: Callable[[], Opened]) -> Opened:
    """Open something in an index folder, and open it again if the folder was replaced in the meantime.

    The files of a replaced folder are removed: opening them may fail, or combine files of both folders.

    Args:
        folder: The index's folder.
        open_it: Opens files in it. Called once unless the folder is replaced.
    """
    while True:
        before = manifest_stamp(folder)
        try:
            opened = open_it()
        except Exception:
            if manifest_stamp(folder) == before:
                raise
            continue
        if manifest_stamp(folder) == before:
            return opened
        opened.close()
