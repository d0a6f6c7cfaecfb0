"""The command line of bubblewrap, the user it runs as, and the interpreter that this user can read."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox import users
from agentgym.tools.sandbox.interpreter import HASH_SEED
from agentgym.tools.sandbox.spec import SandboxSpec
from agentgym.tools.sandbox.view import HostView

LINKS = "/run/bin"
"""A folder whose `python` is the interpreter for runs."""
_LINKS_TO_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "ssl/certs")
_SHARED_MEMORY_MB = 16
_MB = 1 << 20


@dataclass(frozen=True)
class User:
    """The user that owns a sandbox. Never root: a user namespace alone would leave it root's files on the host."""

    uid: int
    gid: int
    drop: bool

    @classmethod
    def of_sandboxes(cls) -> User:
        """Return the user for this process's sandboxes."""
        if os.geteuid() == 0:
            uid = users.fresh_user()
            return cls(uid, uid, True)
        return cls(os.geteuid(), os.getegid(), False)

    def popen_options(self) -> dict[str, Any]:
        """Return the arguments of `subprocess.Popen` that make a process belong to this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.drop else {}

    @contextlib.contextmanager
    def description(self) -> Iterator[IO[bytes]]:
        """Yield an open file that contains this user's line of `/etc/passwd`."""
        with tempfile.TemporaryFile() as file:
            file.write(f"agent:x:{self.uid}:{self.gid}::/tmp:/bin/bash\n".encode())
            file.seek(0)
            yield file


@cache
def version() -> str:
    """Return bubblewrap's version; empty if it is not installed."""
    if shutil.which("bwrap") is None:
        return ""
    done = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False, timeout=5, env={})
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else ""


def command(spec: SandboxSpec, seen: HostView, python: str, passwd_fd: int) -> list[str]:
    """Return the bubblewrap command line, without the program to run.

    Args:
        spec: The sandbox to create.
        seen: The parts of the host to show besides the system's programs.
        python: The interpreter for runs.
        passwd_fd: An open file in the format of `/etc/passwd`.
    """
    program = shutil.which("bwrap")
    if program is None or not version():
        raise InfrastructureError("bubblewrap is not installed; on Debian and Ubuntu: apt-get install bubblewrap")
    limits = spec.limits
    spare = max(1, limits.disk_mb // 4)
    newer = tuple(map(int, version().split("."))) >= (0, 8)
    return [
        program,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
        *(word for name, value in HASH_SEED.items() for word in ("--setenv", name, value)),
        *(("--disable-userns",) if newer else ()),
        *("--cap-drop", "ALL", "--hostname", "sandbox"),
        *_in_memory("/tmp", spare),
        *_in_memory(spec.workdir, max(1, limits.disk_mb - spare)),
        # After the tmpfs mounts: shown paths may lie below them.
        *_read_only(seen, python),
        *("--ro-bind-data", str(passwd_fd), "/etc/passwd"),
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
        *_in_memory("/dev/shm", _SHARED_MEMORY_MB),
        *("--remount-ro", "/", "--chdir", spec.workdir, "--"),
    ]


def _read_only(seen: HostView, program: str) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _LINKS_TO_USR:
        path = f"/{name}"
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for name in _ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for path in seen.shown:
        if not Path(path).is_relative_to("/usr"):
            arguments += ["--ro-bind", path, path]
    for path in seen.hidden:
        arguments += ["--tmpfs", path]
    for path in seen.late:
        arguments += ["--ro-bind", path, path]
    for path in seen.hidden:
        arguments += ["--remount-ro", path]
    arguments += ["--dir", LINKS]
    for name in ("python", "python3"):
        arguments += ["--symlink", program, f"{LINKS}/{name}"]
    return arguments


def _in_memory(path: str, size_mb: int) -> list[str]:
    return ["--size", str(size_mb * _MB), "--tmpfs", path]
