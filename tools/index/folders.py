"""Publishes folders atomically: builds them next to their destination, then moves them there."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_LOCK = ".building"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Yield an empty folder next to `folder`, and remove it afterwards unless it was moved."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    new = Path(tempfile.mkdtemp(prefix=_prefix(folder), dir=folder.parent))
    lock = _locked(new)
    try:
        yield new
    finally:
        os.close(lock)
        shutil.rmtree(new, ignore_errors=True)


def publish(new: Path, folder: Path, keep: Callable[[Path], bool]) -> None:
    """Move a built folder to its destination. Replaces an existing folder unless `keep` returns true for it."""
    (new / _LOCK).unlink()
    new.chmod(0o755)
    while True:
        try:
            new.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        # Readers with open files of the old folder can keep reading them.
        if keep(folder) or _exchange(new, folder):
            return
        _take_away(folder)


def _exchange(new: Path, folder: Path) -> bool:
    """Exchange two folders atomically, if the system supports it."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(folder), _RENAME_EXCHANGE) == 0


def _locked(new_folder: Path) -> int:
    """Lock a folder. A killed build loses its lock, so that the next one knows that it can clean up."""
    new = new_folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Others look for a lock only under its final name, so they never find it unlocked.
    new.rename(new_folder / _LOCK)
    return lock


def _take_away(folder: Path) -> None:
    """Remove a folder atomically."""
    with (
        tempfile.TemporaryDirectory(prefix=_prefix(folder), dir=folder.parent) as trash,
        contextlib.suppress(FileNotFoundError),
    ):
        folder.rename(Path(trash) / folder.name)


def _sweep(folder: Path) -> None:
    """Remove what killed builds of this folder left behind."""
    for entry in folder.parent.iterdir():
        if not entry.name.startswith(_prefix(folder)):
            continue
        try:
            lock = os.open(entry / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry, ignore_errors=True)
        except BlockingIOError:
            pass  # its build is still running
        finally:
            os.close(lock)


def _prefix(folder: Path) -> str:
    return f".{folder.name}.building-"
