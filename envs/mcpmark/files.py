"""The files of a folder, as the tools of an MCP filesystem server show and change them. No link is followed."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agentgym.errors import ToolError

MAX_FILE_BYTES = 4_000_000
MAX_ENTRIES = 500
MAX_PATH_BYTES = 1_000
"""Longest path within the folder. Below the limits of the system, where tools fail that walk through folders."""
_MAX_NAME_BYTES = 255


class Folder:
    """A folder of this machine that an agent works on.

    Args:
        root: The folder. Nothing outside of it is read or changed.
    """

    def __init__(self, root: Path):
        self._root = root

    def listing(self, path: str) -> str:
        """Return the entries of a folder, one on a line."""
        folder = self._existing(path, kind="folder")
        return _lines(f"[{_kind(entry)}] {entry.name}" for entry in sorted(folder.iterdir()))

    def tree(self, path: str) -> str:
        """Return everything below a folder."""
        top = self._existing(path, kind="folder")
        return _lines(f"{entry.relative_to(top)}{'/' if _kind(entry) == 'DIR' else ''}" for entry in _below(top))

    def search(self, path: str, pattern: str) -> str:
        """Return the paths below a folder whose names match a pattern."""
        found = (entry for entry in _below(self._existing(path, kind="folder")) if fnmatch.fnmatch(entry.name, pattern))
        return _lines(str(entry.relative_to(self._root)) for entry in found)

    def read(self, path: str, head: int | None, tail: int | None) -> str:
        """Return the text of a file, or its first or last lines."""
        file = self._existing(path, kind="file")
        if head is not None and tail is not None:
            raise ToolError("Give `head` or `tail`, not both.")
        lines = _text(file, path).splitlines(keepends=True)
        if head is not None:
            lines = lines[: max(0, head)]
        elif tail is not None:
            lines = lines[max(0, len(lines) - tail) :]
        return "".join(lines) or "The file is empty."

    def info(self, path: str) -> str:
        """Return the size and the times of a file or folder."""
        found = self._existing(path)
        state = found.lstat()
        changed = datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds")
        return (
            f"type: {_kind(found)}\nsize: {state.st_size}\nmodified: {changed}\npermissions: {state.st_mode & 0o777:o}"
        )

    def write(self, path: str, content: str) -> str:
        """Write a file, replacing one that exists."""
        file = self._place(path)
        if os.path.lexists(file) and not file.is_file() and not file.is_dir():
            raise ToolError(f"{path} is not a file.")
        if file.is_dir():
            raise ToolError(f"{path} is a folder.")
        if not file.parent.is_dir():
            raise ToolError(f"{path}: its folder does not exist. Create it first.")
        try:
            file.write_bytes(content.encode("utf-8"))
        except UnicodeEncodeError:
            raise ToolError("The text contains lone surrogates, which no file can hold.") from None
        return f"Wrote {path}."

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file."""
        file = self._existing(path, kind="file")
        text = _text(file, path)
        if not old or text.count(old) != 1:
            raise ToolError(f"`old` occurs {text.count(old) if old else 0} times in {path}; it must occur once.")
        return self.write(path, text.replace(old, new, 1)).replace("Wrote", "Changed")

    def make(self, path: str) -> str:
        """Create a folder, and those that it is in."""
        folder = self._place(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}.") from None
        return f"Created {path}."

    def move(self, source: str, destination: str) -> str:
        """Move or rename a file or folder."""
        found, target = self._existing(source), self._place(destination)
        if os.path.lexists(target):
            raise ToolError(f"{destination} exists already.")
        if found == self._root or target.is_relative_to(found):
            raise ToolError(f"{source} cannot be moved to {destination}.")
        if not target.parent.is_dir():
            raise ToolError(f"{destination}: its folder does not exist. Create it first.")
        for entry in _below(found) if found.is_dir() else ():
            self._refuse_long(target / entry.relative_to(found))
        shutil.move(found, target)
        return f"Moved {source} to {destination}."

    def _place(self, path: str) -> Path:
        """Return a place in the folder, whether or not something is there."""
        if "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
            raise ToolError("A path must not contain NUL characters or lone surrogates.")
        place = Path(os.path.normpath(self._root / path))
        if not place.is_relative_to(self._root):
            raise ToolError(f"{path} is outside of the folder. Give paths relative to it.")
        self._refuse_long(place)
        for parent in (place, *place.parents):
            if parent == self._root:
                break
            if parent.is_symlink():
                raise ToolError(f"{path}: links are not followed.")
        return place

    def _refuse_long(self, place: Path) -> None:
        within = place.relative_to(self._root)
        if len(os.fsencode(within)) > MAX_PATH_BYTES or any(
            len(os.fsencode(n)) > _MAX_NAME_BYTES for n in within.parts
        ):
            raise ToolError(
                f"The path is too long: at most {MAX_PATH_BYTES} bytes, and {_MAX_NAME_BYTES} for each name in it."
            )

    def _existing(self, path: str, kind: str = "") -> Path:
        place = self._place(path)
        if not place.exists():
            raise ToolError(f"{path} does not exist.")
        if kind and (kind == "folder") != place.is_dir():
            raise ToolError(f"{path} is not a {kind}.")
        return place


def _below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)


def _kind(entry: Path) -> str:
    return "LINK" if entry.is_symlink() else "DIR" if entry.is_dir() else "FILE"


def _lines(entries: Iterator[str]) -> str:
    shown = [entry for entry, _ in zip(entries, range(MAX_ENTRIES + 1), strict=False)]
    if len(shown) > MAX_ENTRIES:
        shown[MAX_ENTRIES:] = ["(more are not shown)"]
    return "\n".join(shown) or "Nothing."


def _text(file: Path, path: str) -> str:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise ToolError(f"{path} has more than {MAX_FILE_BYTES} bytes.")
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not a text file.") from None
