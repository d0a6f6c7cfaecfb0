"""The protocol's file operations, limited to the workspace and without following links."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from agentgym.tools.sandbox.agent import archive
from agentgym.tools.sandbox.agent.beneath import FileError, WorkspaceRoot, described, enter, leave, open_own, regular
from agentgym.tools.sandbox.agent.remove import remove_at

_CHUNK = 1 << 20
_MAX_DEPTH = 200
_MAX_LISTED = 20_000
_MAX_NAMES = 4_000_000
"""Maximum total characters of the names in a listing."""


def read(workspace: WorkspaceRoot, path: str, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`."""
    fd = workspace.open(path, os.O_RDONLY)
    try:
        return _content(fd, path, max_bytes)
    finally:
        os.close(fd)


def write(workspace: WorkspaceRoot, path: str, mode: int, data: bytes) -> None:
    """Write a file, creating its parent folders and replacing an existing one."""
    workspace.make_parents(path)
    fd = workspace.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        regular(fd, path)
        os.ftruncate(fd, 0)
        os.fchmod(fd, mode & 0o777)
        _write_all(fd, data)
    except OSError as error:
        raise described(error, path) from None
    finally:
        os.close(fd)


def make_folder(workspace: WorkspaceRoot, path: str) -> None:
    """Create a folder and its parents, unless it exists."""
    if not workspace.parts(path):
        return
    workspace.make_parents(path)
    with workspace.parent(path) as (fd, name):
        try:
            os.mkdir(name, 0o755, dir_fd=fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                raise


def remove(workspace: WorkspaceRoot, path: str) -> None:
    """Remove a file, or a folder with everything in it."""
    with workspace.parent(path) as (fd, name):
        os.lstat(name, dir_fd=fd)
        remove_at(fd, name)


def clear(workspace: WorkspaceRoot) -> None:
    """Remove everything in the workspace."""
    fd = workspace.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fchmod(fd, 0o755)
        for name in os.listdir(fd):
            remove_at(fd, name)
    except OSError as error:
        raise described(error, ".") from None
    finally:
        os.close(fd)


def entries(workspace: WorkspaceRoot, path: str, depth: int, max_entries: int) -> tuple[list[list[Any]], bool]:
    """Return a sorted list of `[path, kind, size]` for a folder, and whether it is incomplete."""
    fd = workspace.open(path, os.O_RDONLY | os.O_DIRECTORY)
    entries_so_far: list[list[Any]] = []
    limit, room = min(max_entries, _MAX_LISTED), _MAX_NAMES
    try:
        for name, _, state in _walk(fd, "/".join(workspace.parts(path)), min(depth, _MAX_DEPTH)):
            room -= len(name)
            if len(entries_so_far) == limit or room < 0:
                return entries_so_far, True
            entries_so_far.append([name, _kind(state.st_mode), state.st_size if stat.S_ISREG(state.st_mode) else 0])
    except OSError as error:
        raise described(error, path) from None
    return entries_so_far, False


def table(rows: list[list[Any]]) -> bytes:
    """Encode a listing for sending."""
    return json.dumps(rows, separators=(",", ":")).encode("ascii")


def pack(workspace: WorkspaceRoot, path: str, max_bytes: int) -> bytes:
    """Pack a folder into an archive of folders, regular files and links; other kinds of files are left out."""
    items: list[archive.ArchiveItem] = []
    room = max_bytes
    top = workspace.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name, fd, state in _walk(top, "", _MAX_DEPTH):
            item = _item(name, fd, state, room)
            if item is not None:
                room -= len(item.data) + len(name)
                items.append(item)
            if room < 0:
                raise FileError("too_large", f"{path!r} contains more than {max_bytes} bytes")
    except OSError as error:
        raise described(error, path) from None
    return archive.join(items)


def _item(path: str, folder: int, state: os.stat_result, room: int) -> archive.ArchiveItem | None:
    name, kind = os.path.basename(path), _kind(state.st_mode)
    data = b""
    if kind == "file":
        fd = open_own(folder, name, state.st_mode)
        try:
            data = _content(fd, path, room)
        finally:
            os.close(fd)
    elif kind == "link":
        data = os.fsencode(os.readlink(name, dir_fd=folder))
    elif kind != "dir":
        return None
    return archive.ArchiveItem(path, kind, stat.S_IMODE(state.st_mode), data)


def unpack(workspace: WorkspaceRoot, path: str, items: list[archive.ArchiveItem]) -> None:
    """Write the items of an archive into a folder."""
    make_folder(workspace, path)
    base = "/".join(workspace.parts(path))
    folders = []
    for item in items:
        target = f"{base}/{item.path}" if base else item.path
        if item.kind == "dir":
            make_folder(workspace, target)
            folders.append((target, item.mode))
        elif item.kind == "file":
            write(workspace, target, item.mode, item.data)
        else:
            _link(workspace, target, item.data)
    for target, mode in reversed(folders):  # last, because a folder's mode may forbid writing into it
        fd = workspace.open(target, os.O_RDONLY | os.O_DIRECTORY)
        os.fchmod(fd, mode)
        os.close(fd)


def _link(workspace: WorkspaceRoot, path: str, target: bytes) -> None:
    workspace.make_parents(path)
    with workspace.parent(path) as (fd, name):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        os.symlink(target, os.fsencode(name), dir_fd=fd)


def _walk(fd: int, prefix: str, depth: int, mode: int | None = None) -> Iterator[tuple[str, int, os.stat_result]]:
    """Yield path, parent descriptor and status of everything below `fd` (which is closed), folders first."""
    try:
        names = sorted(os.listdir(fd))
        for name in names:
            try:
                state = os.lstat(name, dir_fd=fd)
            except OSError:
                continue
            path = f"{prefix}/{name}" if prefix else name
            yield path, fd, state
            if stat.S_ISDIR(state.st_mode) and depth > 1:
                try:
                    below, hidden = enter(fd, name, state.st_mode)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # a live session has just removed it
                yield from _walk(below, path, depth - 1, hidden)
    finally:
        leave(fd, mode)


def _kind(mode: int) -> str:
    for test, name in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "dir"), (stat.S_ISLNK, "link")):
        if test(mode):
            return name
    return "other"


def _content(fd: int, path: str, max_bytes: int) -> bytes:
    size = regular(fd, path).st_size
    if size > max_bytes:
        raise FileError("too_large", f"{path!r} has {size} bytes; at most {max_bytes} can be read")
    data = bytearray()
    while len(data) <= max_bytes:
        chunk = os.read(fd, _CHUNK)
        if not chunk:
            return bytes(data)
        data += chunk
    raise FileError("too_large", f"{path!r} has more than {max_bytes} bytes")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
