"""Check output files and folders before work starts, and lock them for one process."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agentgym.base.errors import UsageError


def check_file(path: Path, *, apart_from: Path | None = None) -> None:
    """Raise `UsageError` unless a file can be written: its folder exists, it is not a folder, and there is disk space.

    Existing contents are kept. A file that did not exist is created empty.

    Args:
        path: The file.
        apart_from: A file that is read and must be a different one.
    """
    if path.is_dir():
        raise UsageError(f"cannot write to {str(path)!r}: it is a folder; name a file in a folder that exists")
    if not path.parent.is_dir():
        parent = str(path.parent)
        raise UsageError(
            f"cannot write to {str(path)!r}: the folder {parent!r} does not exist; name a folder that exists"
        )
    if apart_from is not None and path.exists() and apart_from.exists() and path.samefile(apart_from):
        raise UsageError(f"cannot write to {str(path)!r}: it is the input file; choose another")
    try:
        _try_to_write(path)
    except OSError as error:
        raise UsageError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def check_folder(path: Path) -> None:
    """Create a folder if needed. Raise `UsageError` unless files can be written in it."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"cannot write to the folder {str(path)!r}: it is a file; name a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _try_folder(path)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {str(path)!r}: {error.strerror or error}") from error


def refuse_to_replace(path: Path, what: str, is_ours: Callable[[Path], bool]) -> None:
    """Raise `UsageError` if a file has contents of someone else's.

    Args:
        path: The file that is about to be replaced; it need not exist.
        what: A name for our contents, with its article, for the message.
        is_ours: Whether the file holds such contents.
    """
    if path.is_file() and path.stat().st_size and not is_ours(path):
        raise UsageError(f"{str(path)!r} exists and is not {what}: name another file, or remove it first")


def first_bytes(path: Path, count: int) -> bytes:
    """Return the beginning of a file; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock a file or folder exclusively. A lock ends with its process.

    Raises:
        UsageError: Another process holds the lock; the message names the process and its machine.
    """
    if path.exists() and not (path.is_dir() or path.is_file()):
        yield  # a pipe or a device
        return
    lock = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    file = _locked(lock, path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                lock.unlink()
            file.close()


def _try_to_write(path: Path) -> None:
    """Open a file for writing, and write a trial file in its folder.

    An existing file itself is not changed: another process may be writing to it.
    """
    if path.is_fifo():
        return  # opening it would wait for a reader
    with path.open("ab", buffering=0) as file:
        if not path.is_file():
            file.write(b"\n")  # a device accepts or refuses data only on a write
            return
    _try_folder(path.parent)


def _try_folder(folder: Path) -> None:
    """Write a trial file of one byte in a folder, and remove it."""
    trial = folder / f".trial-{os.getpid()}"
    try:
        trial.write_bytes(b"\n")
    finally:
        trial.unlink(missing_ok=True)


def _locked(lock: Path, path: Path) -> IO[str] | None:
    """Return the locked lock file; `None` if the file system or the platform has no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        try:
            file = lock.open("a+", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            raise UsageError(
                f"{str(path)!r} is being written by {holder}; wait until it has ended, or write elsewhere"
            ) from None
        except OSError:
            file.close()
            return None
        if _is_still(lock, file):
            break
        file.close()  # the previous holder removed it in between
    file.truncate(0)
    json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
    file.flush()
    return file


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        holder = json.loads(file.read())
        return f"process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _is_still(lock: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(os.stat(lock), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
