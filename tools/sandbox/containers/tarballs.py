"""Converts between the agent's archives and tar files, for images without python, in memory."""

from __future__ import annotations

import io
import posixpath
import tarfile

from agentgym.tools.sandbox.agent import archive

_KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def from_archive(data: bytes) -> bytes:
    """Convert an archive to a tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for item in archive.split(data):
            entry = tarfile.TarInfo(item.path)
            entry.type = _KINDS[item.kind]
            entry.mode = item.mode
            if item.kind == "link":
                entry.linkname = item.data.decode("utf-8", "surrogateescape")
            else:
                entry.size = len(item.data)
            tar.addfile(entry, io.BytesIO(item.data) if item.kind == "file" else None)
    return packed.getvalue()


def to_archive(packed: bytes, max_bytes: int) -> bytes:
    """Convert a tar file to an archive of its folders, regular files and links.

    Raises:
        ValueError: If the contents exceed `max_bytes`, or it is not a tar file: its source is not trusted.
    """
    items: list[archive.ArchiveItem] = []
    room = max_bytes
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            for entry in tar:
                path = posixpath.normpath(entry.name)
                kind = _kind(entry)
                if path == "." or kind is None:
                    continue
                data = _content(tar, entry, kind, room)
                room -= len(data) + len(path)
                if room < 0:
                    raise _TooLarge(f"it contains more than {max_bytes} bytes")
                items.append(archive.ArchiveItem(path, kind, entry.mode & 0o777, data))
    except _TooLarge:
        raise
    except Exception as error:
        raise ValueError(f"it cannot be packed: {error}") from None
    return archive.join(items)


class _TooLarge(ValueError):
    pass


def _kind(entry: tarfile.TarInfo) -> str | None:
    """Return the kind. A hard link is a file too, although tar only refers to its first name."""
    if entry.isdir():
        return "dir"
    if entry.issym():
        return "link"
    return "file" if entry.isfile() or entry.islnk() else None


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo, kind: str, room: int) -> bytes:
    if kind == "link":
        return entry.linkname.encode("utf-8", "surrogateescape")
    file = tar.extractfile(entry) if kind == "file" else None
    # A sparse file can be far larger than its tar file.
    return file.read(max(0, room) + 1) if file else b""
