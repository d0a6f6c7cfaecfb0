"""Copies the interpreter and little else of the host into memory, for sandboxes that share no file with others.

Reading a file of the host brings it into the page cache, and looking up a name leaves an entry in the kernel's cache of
names. Both outlast a sandbox, and another one can detect them by the time that a read or a lookup takes. A tmpfs has
all its files in memory, and keeps no entries for missing names.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

SIZE = "size=2g"
"""Limit of the tmpfs that holds the copies."""
_PROGRAMS = ("sh", "env", "true", "false", "echo", "cat", "sleep")
_FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8")
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "idlelib", "ensurepip", "tkinter", "turtledemo", "pydoc_data")
)
"""Parts of the standard library that tests do not need."""
_UNUSED = (".a", ".opt-1.pyc", ".opt-2.pyc")
_RARE_LIBRARIES = ("_tkinter", "_test")


class HostFiles(NamedTuple):
    """Files and folders to copy, by their real paths, and the links that lead to them."""

    paths: list[str]
    links: dict[str, str]


def needed_files(program: str, late: Iterable[str]) -> HostFiles:
    """Return what a Python program needs of the host, and the paths `late`. Call it while `/` is the host's root."""
    paths = [program, os.path.dirname(os.__file__), "/etc/ld.so.cache", *_FOLDERS, *_libraries(), *late]
    paths += [f"/usr/bin/{name}" for name in _PROGRAMS]
    links: dict[str, str] = {path: os.readlink(path) for path in _LINKS if os.path.islink(path)}
    real = [_followed(path, links) for path in paths if os.path.exists(path)]
    return HostFiles(list(dict.fromkeys(real)), links)


def copy_files(files: HostFiles, host: str) -> None:
    """Copy files into the root, which is a tmpfs; `host` is the path of the host's root."""
    for link, target in files.links.items():
        os.makedirs(os.path.dirname(link), exist_ok=True)
        with suppress(FileExistsError):
            os.symlink(target, link)
    for path in files.paths:
        _copy(host, path)


def _libraries() -> list[str]:
    """Return the shared libraries that this process and the modules of the standard library use, and links to them.

    Loads them in a fork, which exits afterwards.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            with open(write, "w") as pipe:
                json.dump(_load_libraries(), pipe)
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    loaded: list[str] = json.loads(text)
    # The dynamic loader is named in every program, by a path in one of the first two.
    folders = {*filter(os.path.isdir, ("/lib", "/lib64")), *map(os.path.dirname, loaded)}
    names = [entry.path for folder in sorted(folders) for entry in os.scandir(folder) if entry.is_symlink()]
    return [*loaded, *(name for name in names if os.path.realpath(name) in loaded)]


def _load_libraries() -> list[str]:
    folder = os.path.join(os.path.dirname(os.__file__), "lib-dynload")
    names = [name for name in os.listdir(folder) if not name.startswith(_RARE_LIBRARIES)]
    for path in ("libgcc_s.so.1", *(os.path.join(folder, name) for name in names)):
        with suppress(OSError):
            ctypes.CDLL(path)
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
    return sorted(path for path in paths if path.startswith("/") and os.path.isfile(path))


def _followed(path: str, links: dict[str, str]) -> str:
    """Return the real path, and add the links on the way to `links`."""
    current, parts = "", path.strip("/").split("/")
    for number, part in enumerate(parts, start=1):
        current = f"{current}/{part}"
        if os.path.islink(current):
            links[current] = os.readlink(current)
            target = os.path.join(os.path.dirname(current), links[current], *parts[number:])
            return _followed(os.path.normpath(target), links)
    return current


def _copy(host: str, path: str) -> None:
    state = os.lstat(host + path)
    if stat.S_ISDIR(state.st_mode):
        os.makedirs(path, exist_ok=True)
        for name in os.listdir(host + path) if os.access(host + path, os.R_OK | os.X_OK) else ():
            if name not in _LEFT_OUT and not name.startswith("config-") and not name.endswith(_UNUSED):
                _copy(host, f"{path}/{name}")
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if stat.S_ISLNK(state.st_mode):
            os.symlink(os.readlink(host + path), path)
        elif stat.S_ISREG(state.st_mode) and os.access(host + path, os.R_OK):
            with open(host + path, "rb") as source, open(path, "xb") as target:
                target.write(source.read())
            os.chmod(path, stat.S_IMODE(state.st_mode) & 0o555 | 0o444)
            os.utime(path, ns=(state.st_mtime_ns, state.st_mtime_ns))  # bytecode is checked against it
