"""Removes folders of any depth and permissions, by descriptors and without recursion.

A path of 3,000 components is too long to use, and a recursive walk of it overflows the stack. Nested folders are
therefore moved to the top, one level at a time, and emptied there.
"""

from __future__ import annotations

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_at(parent: int, name: str) -> None:
    """Remove `name` in the folder `parent`, with everything below it."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    waiting = [name]
    while waiting:
        fd = _open(parent, waiting[-1])
        try:
            below = _empty(fd)
            for inner in below:
                _allow(fd, inner)
                waiting.insert(0, _move(fd, inner, parent))
        finally:
            os.close(fd)
        if waiting:
            os.rmdir(waiting.pop(), dir_fd=parent)


def _move(fd: int, name: str, parent: int) -> str:
    """Move a folder up to `parent`, under an unpredictable name that cannot be taken; return that name."""
    new_name = f".removed-{os.urandom(12).hex()}"
    os.rename(name, new_name, src_dir_fd=fd, dst_dir_fd=parent)
    return new_name


def _empty(fd: int) -> list[str]:
    """Unlink the files and remove the empty subfolders of a folder; return the other subfolders."""
    folders = []
    for name in os.listdir(fd):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            os.unlink(name, dir_fd=fd)
            continue
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError:
            folders.append(name)
    return folders


def _open(parent: int, name: str) -> int:
    _allow(parent, name)
    return os.open(name, _FOLDER, dir_fd=parent)


def _allow(parent: int, name: str) -> None:
    """Give the owner all permissions on a folder; moving it requires write permission (its `..` changes)."""
    if stat.S_IMODE(os.lstat(name, dir_fd=parent).st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
