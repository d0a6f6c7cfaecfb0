"""Reads the files that an agent left: only regular files, and never through links."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_answer(root: Path, place: str, max_bytes: int) -> str:
    """Return the text of an answer; empty unless it is a regular UTF-8 file of at most `max_bytes` bytes."""
    data = read_regular(root / place.lstrip("/"), max_bytes)
    try:
        return "" if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def read_regular(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a regular file; `None` if it is missing, not regular, behind a link, or too large."""
    if Path(os.path.realpath(path)) != Path(os.path.abspath(path)):
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        data = file.read(max_bytes + 1)
    return data if len(data) <= max_bytes else None


def read_files(folder: Path, max_bytes: int) -> dict[str, bytes]:
    """Return the regular files below a folder, by path, up to `max_bytes` bytes in total."""
    files: dict[str, bytes] = {}
    remaining = max_bytes
    if folder.is_symlink():
        return files
    for above, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(above, name)
            data = read_regular(path, remaining)
            if data is not None:
                remaining -= len(data)
                files[path.relative_to(folder).as_posix()] = data
    return files
