"""Shows parts of the host to a sandbox as separate files: each mount is added to its root as a read-only overlay.

Content and page cache are shared. Locks and watches belong to the opened file, which is then the sandbox's own:
neither the host nor another sandbox sees them. Where the kernel does not support overlays, the mounts are shown
directly.
"""

from __future__ import annotations

import os
import re
import stat

from agentgym.tools.sandbox.agent.lockdown import system

_EMPTY, _AWAY, _LATER = "/.empty", "/.away", "/.later"
FOLDERS = (_EMPTY, _AWAY, _LATER)
"""Folders that the root must contain."""
_RDONLY, _NOSUID, _NODEV, _BIND = 0x1, 0x2, 0x4, 0x1000


class Layers:
    """The mounts of this process's root, to be added to new roots as overlays. Create it while the root is writable.

    Args:
        host: The path of the host's root.
        without: Paths to skip, with all mounts below them.
        later: A folder that each new root mounts separately; `lay_later` adds the mounts below it.
    """

    def __init__(self, host: str, without: tuple[str, ...], later: str):
        self._host = host
        # A separate mount, because an overlay cannot contain its own mount point.
        system.mount("tmpfs", _EMPTY, "tmpfs", _NOSUID | _NODEV | _RDONLY, "mode=755,size=4k")
        mount_points = [
            path for path in _mount_points(host) if path != "/" and not _is_below(path, (host, _EMPTY, *without))
        ]
        self._later = [path for path in mount_points if _is_below(path, (later,))]
        self._places = {path: _LATER + path if path in self._later else path for path in mount_points}
        self._as_they_are = frozenset(path for path in ("/", *mount_points) if not self._can_be_laid(path))
        for path in self._later:
            _make_place(path, _LATER + path)

    @property
    def own_files(self) -> bool:
        """Whether a new root shares no file with the host."""
        return not self._as_they_are

    def lay(self, root: str) -> None:
        """Create a mount at `root` with everything in this process's root."""
        self._show("/", root, _RDONLY | _NOSUID)
        for path, place in self._places.items():
            self._show(path, root + place)

    def lay_later(self) -> None:
        """In a new root, add the mounts below `later`, which is mounted by now."""
        for path in self._later:
            _make_place(_LATER + path, path)
            system.mount(_LATER + path, path, None, _BIND)

    def _can_be_laid(self, path: str) -> bool:
        if stat.S_ISCHR(os.stat(path).st_mode):
            return False
        folder = os.path.dirname(path)
        if not os.path.isdir(path) and os.stat(self._host + path).st_dev != os.stat(self._host + folder).st_dev:
            return False
        try:
            _overlay(path if os.path.isdir(path) else self._host + folder, _AWAY, _RDONLY)
        except OSError:
            return False
        system.detach(_AWAY)
        return True

    def _show(self, path: str, target: str, flags: int = _RDONLY | _NOSUID | _NODEV) -> None:
        if path in self._as_they_are:
            system.mount(path, target, None, _BIND)
        elif os.path.isdir(path):
            _overlay(path, target, flags)
        else:  # only folders can be overlays
            _overlay(self._host + os.path.dirname(path), _AWAY, flags)
            system.mount(f"{_AWAY}/{os.path.basename(path)}", target, None, _BIND)
            system.detach(_AWAY)


def escaped(path: str) -> str:
    """Escape a path for an overlay's mount options."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _overlay(source: str, target: str, flags: int) -> None:
    system.mount("overlay", target, "overlay", flags, f"lowerdir={escaped(source)}:{_EMPTY}")


def _mount_points(host: str) -> list[str]:
    """Return all mount points, in mount order."""
    with open(f"{host}/proc/self/mountinfo", "rb") as file:
        paths = [line.split()[4] for line in file]
    return list(dict.fromkeys(os.fsdecode(re.sub(rb"\\([0-7]{3})", _character, path)) for path in paths))


def _character(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _make_place(path: str, target: str) -> None:
    """Create a mount point."""
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o444))
