"""Opens paths without leaving the workspace, whatever links the model's code has created there.

The kernel resolves the path (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS); on older kernels, each component
is opened separately without following links.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_OPENAT2 = 437  # the same on every architecture
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)


class FileError(Exception):
    """A file operation failed; `kind` is the protocol's word for the reason."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


_LIBC = ctypes.CDLL(None, use_errno=True) if platform.system() == "Linux" else None


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class WorkspaceRoot:
    """A folder that is kept open, and below which paths are opened.

    Args:
        path: The folder's path in the sandbox.
    """

    def __init__(self, path: str):
        self.path = path
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._libc = _LIBC

    def repair(self) -> None:
        """Restore the permission to enter the workspace, in case a run has removed it."""
        if os.fstat(self._root).st_mode & 0o700 != 0o700:
            os.fchmod(self._root, 0o755)

    def usable(self) -> bool:
        """Whether the workspace still exists and can be entered."""
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._root))
            return same and os.access(self.path, os.W_OK | os.X_OK)
        except OSError:
            return False

    def parts(self, path: str) -> list[str]:
        """Return the components of a model's path: relative, or absolute inside the workspace."""
        if "\0" in path:
            raise FileError("invalid", f"the path {path!r} contains a NUL character")
        if path == self.path or path.startswith(self.path.rstrip("/") + "/"):
            path = path[len(self.path) :].lstrip("/")
        elif path.startswith("/"):
            raise FileError("outside", f"{path!r} is outside the workspace {self.path!r}")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise FileError("outside", f"{path!r} contains '..'; use paths inside the workspace {self.path!r}")
        return parts

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """Open a path below the workspace, without following links and without blocking (as on a FIFO)."""
        parts = self.parts(path)
        try:
            return self._open("/".join(parts) or ".", flags | _SAFE, mode)
        except OSError as error:
            raise described(error, path) from None

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of a path's parent folder, and its last component."""
        parts = self.parts(path)
        if not parts:
            raise FileError("invalid", f"{path!r} is the workspace itself")
        fd = self.open("/".join(parts[:-1]), os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd, parts[-1]
        except OSError as error:
            raise described(error, path) from None
        finally:
            os.close(fd)

    def make_parents(self, path: str) -> None:
        """Create a path's parent folders."""
        fd = os.dup(self._root)
        try:
            for part in self.parts(path)[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=fd)
                os.close(fd)
                fd = below
        except OSError as error:
            raise described(error, path) from None
        finally:
            os.close(fd)

    def _open(self, path: str, flags: int, mode: int) -> int:
        if self._libc is not None:
            how = _How(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
            for _ in range(100):
                fd = self._libc.syscall(_OPENAT2, self._root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
                if fd >= 0:
                    return fd
                number = ctypes.get_errno()
                if number in (errno.ENOSYS, errno.EPERM):
                    self._libc = None
                    break
                if number not in (errno.EAGAIN, errno.EINTR):
                    raise OSError(number, os.strerror(number))
        return self._walk(path.split("/"), flags, mode)

    def _walk(self, parts: list[str], flags: int, mode: int) -> int:
        fd = os.dup(self._root)
        try:
            for part in parts[:-1]:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=fd)
                os.close(fd)
                fd = below
            return os.open(parts[-1], flags, mode, dir_fd=fd)
        finally:
            os.close(fd)


def regular(fd: int, path: str) -> os.stat_result:
    """Return the status of an open file; reject anything but a regular file."""
    state = os.fstat(fd)
    if stat.S_ISDIR(state.st_mode):
        raise FileError("is_directory", f"{path!r} is a directory")
    if not stat.S_ISREG(state.st_mode):
        raise FileError("not_a_file", f"{path!r} is not a regular file")
    return state


def open_own(parent: int, name: str, mode: int) -> int:
    """Open a regular file of this user for reading, even if its mode forbids it."""
    flags = os.O_RDONLY | _SAFE
    if mode & 0o400:
        return os.open(name, flags, dir_fd=parent)
    os.chmod(name, 0o600, dir_fd=parent)
    fd = os.open(name, flags, dir_fd=parent)
    os.fchmod(fd, stat.S_IMODE(mode))
    return fd


def enter(parent: int, name: str, mode: int) -> tuple[int, int | None]:
    """Open a folder of this user, even if its mode forbids it; pass the result to `leave`."""
    flags = os.O_RDONLY | os.O_DIRECTORY | _SAFE
    if mode & 0o500 == 0o500:
        return os.open(name, flags, dir_fd=parent), None
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, flags, dir_fd=parent), stat.S_IMODE(mode)


def enter_open(folder: int) -> tuple[int, int | None]:
    """Reopen an open folder of this user, even if its mode forbids it; pass the result to `leave`."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o500 == 0o500:
        return os.dup(folder), None
    os.fchmod(folder, 0o700)
    return os.dup(folder), mode


def leave(fd: int, mode: int | None) -> None:
    """Close a folder and restore its original mode."""
    if mode is not None:
        os.fchmod(fd, mode)
    os.close(fd)


_KINDS = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.EISDIR: ("is_directory", "is a directory"),
    errno.ENOTDIR: ("not_a_file", "has a file in place of a directory"),
    errno.ENXIO: ("not_a_file", "is not a regular file"),
    errno.ELOOP: ("outside", "is or contains a symbolic link, which is not followed"),
    errno.EXDEV: ("outside", "leads out of the workspace"),
    errno.ENOSPC: ("no_space", "cannot be written: the disk quota is used up"),
    errno.EDQUOT: ("no_space", "cannot be written: the disk quota is used up"),
    errno.EFBIG: ("too_large", "would exceed the file size limit"),
    errno.EMFILE: ("too_large", "is too deep a folder tree"),
    errno.ENAMETOOLONG: ("invalid", "is too long"),
    errno.ENOTEMPTY: ("invalid", "is a directory that is not empty"),
    errno.EEXIST: ("invalid", "already exists"),
}


def described(error: OSError, path: str) -> FileError:
    """Convert an `OSError` to an error of the protocol."""
    kind, what = _KINDS.get(error.errno or 0, ("invalid", f"cannot be used: {error.strerror}"))
    return FileError(kind, f"{path!r} {what}")
