"""The file system of the namespaces tier: a small read-only root, built once, and a workspace for each sandbox."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from typing import Any

from agentgym.tools.sandbox.agent.lockdown import layers, sealing, system

HOST = "/.host"
"""The path of the host's root while a sandbox is built; it is detached before anything runs."""
BIN = "/run/bin"
_SPACE, _LOWER, _NEW, _OLD = "/.space", "/.lower", "/.new", "/.old"
_NOSUID, _NODEV, _NOEXEC, _BIND, _MOVE, _REC, _PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x2000, 0x4000, 0x40000
_PIVOT_ROOT = {"x86_64": 155}
_PIVOT_ROOT_ELSEWHERE = 41
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x100000
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_CLONE_TREE, _FROM_FD = 0x1, 0x4

DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
_FILES = {
    "/etc/passwd": "root:x:0:0::/:/bin/sh\nagent:x:{inside}:{inside}:agent:/tmp:/bin/bash\n",
    "/etc/group": "root:x:0:\nagent:x:{inside}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/hostname": "sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/var/tmp": "/tmp",
}


def build_root(
    readable: Iterable[str],
    hidden: Iterable[str],
    late: Iterable[str],
    workdir: str,
    inside: int,
    program: str,
    *,
    sealed: bool,
) -> layers.Layers:
    """Build a read-only root with parts of the host, and switch this process to it; the old root is at `HOST`.

    Returns the layers to build further roots with `own_root`.

    Args:
        readable: Folders of the host to show besides the system's.
        hidden: Folders below those that appear empty.
        late: Folders that are visible even inside hidden ones.
        workdir: The path of the workspace.
        inside: The sandbox's uid inside it.
        program: The interpreter, linked as `python` in `BIN`.
        sealed: Copy the standard library and `late` into the root, and show nothing else.
    """
    copied = sealing.needed_files(program, late) if sealed else None
    system.mount("none", "/", None, _REC | _PRIVATE)
    system.mount("tmpfs", "/tmp", "tmpfs", _NOSUID, f"mode=755,{sealing.SIZE if sealed else 'size=4m'}")
    os.mkdir(f"/tmp{HOST}")
    _make_root("/tmp", HOST)
    if copied is None:
        _show_all(readable, hidden, late)
    else:
        sealing.copy_files(copied, HOST)
    for name in ("/proc", "/tmp", "/dev/shm", "/var", BIN, _SPACE, _LOWER, _NEW, _OLD, *layers.FOLDERS, workdir):
        os.makedirs(name, exist_ok=True)
    for name in DEVICES:
        _make_device(f"/dev/{name}")
    for path, text in _FILES.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text.format(inside=inside))
    for path, target in {**_LINKS, f"{BIN}/python": program, f"{BIN}/python3": program}.items():
        os.symlink(target, path)
    root = layers.Layers(HOST, ("/dev/shm",), "/tmp")
    _set_attributes("/", _ATTR_RDONLY | _ATTR_NOSUID, recursive=True)
    system.mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    return root


def _show_all(readable: Iterable[str], hidden: Iterable[str], late: Iterable[str]) -> None:
    for path in (*_SYSTEM, *readable):
        _show(path)
    for path in hidden:
        if os.path.isdir(path):
            system.mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=755,size=64k")
    for path in late:
        _show(path)


def own_root(root: layers.Layers) -> None:
    """In a new mount namespace: switch this process to a root with separate files; the host is at `HOST`."""
    root.lay(_NEW)
    system.mount(HOST, _NEW + HOST, None, _MOVE)
    _make_root(_NEW, _OLD)
    system.detach(_OLD)


def _make_root(path: str, old: str) -> None:
    """Switch this process's root to a mount; the old root is at `old`, a folder in the new one."""
    os.chdir(path)
    system.call("pivot_root", _PIVOT_ROOT.get(system.MACHINE, _PIVOT_ROOT_ELSEWHERE), b".", os.fsencode(old[1:]))
    os.chdir("/")


def _make_device(path: str) -> None:
    """Recreate a device of the host, so that each sandbox gets a separate file; bind it if that is not permitted."""
    try:
        os.mknod(path, stat.S_IFCHR, os.stat(HOST + path).st_rdev)
        os.chmod(path, 0o666)
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        if os.path.exists(path):
            os.unlink(path)
        _bind(HOST + path, path)


def _show(path: str) -> None:
    """Bind a file or folder of the host at the same path, unless it is already there or does not exist."""
    source = HOST + path
    if os.path.islink(source) and not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.readlink(source), path)
    elif os.path.exists(source) and not _is_shown(path):
        _bind(source, path)
        _set_attributes(path, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, recursive=True)


def _is_shown(path: str) -> bool:
    """Whether a path is already shown, because it is below a shown one."""
    try:
        mine, hosts = os.stat(path), os.stat(HOST + path)
    except OSError:
        return False
    return (mine.st_dev, mine.st_ino) == (hosts.st_dev, hosts.st_ino)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_RDONLY, 0o444))
    system.mount(source, target, None, _BIND | _REC)


def _set_attributes(path: str, attributes: int, *, recursive: bool = False) -> None:
    values = struct.pack("QQQQ", attributes, 0, 0, 0)
    system.call(
        f"mount_setattr {path}",
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE if recursive else 0,
        values,
        len(values),
    )


def allow_writing(path: str) -> None:
    """Let the zygote write to a mount of the host, such as the cgroup file system."""
    values = struct.pack("QQQQ", 0, _ATTR_RDONLY, 0, 0)
    system.call("mount_setattr", _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), 0, values, len(values))


def build_workspace(
    root: layers.Layers,
    limits: dict[str, Any],
    template: str | None,
    workdir: str,
    uid: int,
    mapping: int | None,
    *,
    sealed: bool,
) -> str:
    """Mount one sandbox's workspace, temporary folder and `/proc` into its root, and detach the host.

    Args:
        root: The layers of the root, from `own_root`.
        limits: `disk_mb` and `files` limit everything that can be written.
        template: Folder of the host with the workspace's initial files.
        workdir: The path of the workspace.
        uid: The user that owns it.
        mapping: User namespace that maps the template's owner to that user; `None` if not needed.
        sealed: Leave the machine's counters, such as its load, out of `/proc`.

    Returns:
        A note if the template had to be copied.
    """
    options = f"size={limits['disk_mb']}m,nr_inodes={limits['files']},mode=755"
    system.mount("tmpfs", _SPACE, "tmpfs", _NOSUID | _NODEV, options)
    for name in ("work", "tmp", "shm"):
        os.mkdir(f"{_SPACE}/{name}", 0o755)
        os.chown(f"{_SPACE}/{name}", uid, uid)
        os.chmod(f"{_SPACE}/{name}", 0o755 if name == "work" else 0o1777)
    note = "" if template is None else _lay(template, workdir, uid, mapping)
    if template is None or note:
        system.mount(f"{_SPACE}/work", workdir, None, _BIND)
    system.mount(f"{_SPACE}/tmp", "/tmp", None, _BIND)
    system.mount(f"{_SPACE}/shm", "/dev/shm", None, _BIND)
    system.detach(_SPACE)
    root.lay_later()
    system.mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "subset=pid" if sealed else "")
    system.detach(HOST)
    if os.listdir(HOST):
        raise OSError(f"{HOST} is not empty after the host's root was detached")
    return note


def _lay(template: str, workdir: str, uid: int, mapping: int | None) -> str:
    """Overlay the workspace on a template, sharing its files until they change; if that fails, copy it."""
    lower = HOST + template
    try:
        if mapping is not None:
            _map_owner(lower, mapping)
            lower = _LOWER
        elif os.stat(lower).st_uid != uid:
            raise OSError(f"{template} belongs to another user")
        for name in ("upper", "scratch"):
            os.mkdir(f"{_SPACE}/{name}", 0o755)
            os.chown(f"{_SPACE}/{name}", uid, uid)
        options = f"lowerdir={layers.escaped(lower)},upperdir={_SPACE}/upper,workdir={_SPACE}/scratch"
        if os.geteuid():
            options += ",userxattr"
        system.mount("overlay", workdir, "overlay", _NOSUID | _NODEV, options)
    except OSError as error:
        copy_tree(HOST + template, f"{_SPACE}/work", uid)
        return f"the template was copied, not shared: {error}"
    if mapping is not None:
        system.detach(_LOWER)
    return ""


def _map_owner(source: str, mapping: int) -> None:
    """Mount a folder at `_LOWER` with its owner mapped to another user."""
    tree = system.call("open_tree", _OPEN_TREE, _AT_FDCWD, os.fsencode(source), _CLONE_TREE | os.O_CLOEXEC)
    try:
        values = struct.pack("QQQQ", _ATTR_IDMAP | _ATTR_RDONLY, 0, 0, mapping)
        system.call("mount_setattr", _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, values, len(values))
        system.call("move_mount", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(_LOWER), _FROM_FD)
    finally:
        os.close(tree)


def copy_tree(source: str, target: str, uid: int | None) -> None:
    """Copy folders, regular files and links, and give everything to the user `uid`, if given."""
    import shutil  # not at module level: its libraries would slow down every fork of the zygote

    for folder, names, files in os.walk(source):
        below = os.path.normpath(os.path.join(target, os.path.relpath(folder, source)))
        os.makedirs(below, exist_ok=True)
        for name in [*files, *names]:
            path, copy = os.path.join(folder, name), os.path.join(below, name)
            state = os.lstat(path)
            if stat.S_ISLNK(state.st_mode):
                os.symlink(os.readlink(path), copy)
            elif stat.S_ISREG(state.st_mode):
                shutil.copyfile(path, copy)
                os.chmod(copy, stat.S_IMODE(state.st_mode) & 0o777 | 0o400)
            elif stat.S_ISDIR(state.st_mode):
                os.mkdir(copy)
            else:
                continue
            if uid is not None:
                os.chown(copy, uid, uid, follow_symlinks=False)
