"""Confines a PostgreSQL server with bubblewrap: its superuser may run code as the user that the server runs as.

The server sees PostgreSQL and the system's libraries, read-only, and its own folder. There is no network and, once the
cluster is made, no program but PostgreSQL's own: `COPY ... TO PROGRAM` finds no shell.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.tools.sandbox.bubblewrap_command import User

_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32", "/usr/share")
_PROGRAMS = ("/usr/bin", "/usr/sbin", "/usr/local")
_LINKS = ("lib", "lib32", "lib64", "libx32")
_PROGRAM_LINKS = ("bin", "sbin")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "alternatives")
_ALONE = (
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
    *("--cap-drop", "ALL", "--hostname", "postgres", "--setenv", "LC_ALL", "C.UTF-8"),
)
_UNPRIVILEGED = ("postgres", "nobody")
_PASSWD = "passwd"
_TMP_BYTES = 64 << 20
"""Of `/tmp`, which is memory."""
_TRY_S = 20.0


@dataclass(frozen=True)
class Confinement:
    """How a server is confined, and the user that it runs as."""

    user: User
    holds: bool
    """Whether it is confined at all."""

    def own_folder(self, folder: Path) -> None:
        """Make a folder that of the user, who needs a line in `/etc/passwd`."""
        line = f"{self.user.uid}:{self.user.gid}"
        (folder / _PASSWD).write_text(f"postgres:x:{line}::/tmp:/bin/sh\n", encoding="utf-8")
        os.chown(folder, self.user.uid, self.user.gid)

    def command(self, argv: Sequence[str], own: Path, programs: Path, *, shell: bool) -> list[str]:
        """Return the command that runs a program.

        Args:
            argv: The program and its arguments.
            own: The folder that it may write to.
            programs: The folder of PostgreSQL's programs.
            shell: Show it the system's programs too.
        """
        if not self.holds:
            return list(argv)
        etc = (word for name in _ETC for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}"))
        return [
            str(shutil.which("bwrap")),
            *_ALONE,
            *("--setenv", "PATH", f"{programs}:/usr/bin"),
            *_shown([*_LIBRARIES, *(_PROGRAMS if shell else ())]),
            *_linked((*_LINKS, *(_PROGRAM_LINKS if shell else ()))),
            *etc,
            *_shown([] if programs.is_relative_to("/usr") else [str(programs.parent)]),
            *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp"),
            *("--bind", str(own), str(own)),
            *("--ro-bind", str(own / _PASSWD), "/etc/passwd", "--remount-ro", "/", "--chdir", str(own), "--"),
            *argv,
        ]


def confinement(*, allow_weak: bool) -> Confinement:
    """Return how servers can be confined here.

    Raises:
        UsageError: Not at all, and `allow_weak` does not accept that.
    """
    why_not = _why_not()
    if not why_not:
        return Confinement(User.of_sandboxes(), True)
    if allow_weak:
        return Confinement(_plain_user(), False)
    raise UsageError(
        f"a PostgreSQL server cannot be confined here: {why_not}. Its superuser, which the agent is, could run "
        "programs on this machine. Install bubblewrap (apt-get install bubblewrap), or accept that with allow_weak=true"
    )


@cache
def _why_not() -> str:
    """Return why bubblewrap cannot confine anything here; empty if it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed"
    user = User.of_sandboxes()
    command = [program, "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, **user.popen_options())
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap does not start: {error}"
    return "" if done.returncode == 0 else f"bubblewrap fails: {done.stderr.strip()[-200:]}"


def _plain_user() -> User:
    """Return the user of a server that is not confined: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return User(os.geteuid(), os.getegid(), False)
    for name in _UNPRIVILEGED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(found.pw_uid, found.pw_gid, True)
    raise UsageError(f"PostgreSQL does not run as root, and there is no user {' or '.join(_UNPRIVILEGED)} to run it as")


def _shown(paths: Sequence[str]) -> list[str]:
    return [word for path in paths if Path(path).is_dir() for word in ("--ro-bind", path, path)]


def _linked(names: Sequence[str]) -> list[str]:
    arguments: list[str] = []
    for path in (Path("/", name) for name in names):
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments
