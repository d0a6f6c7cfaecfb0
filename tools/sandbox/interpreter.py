"""The Python that runs in sandboxes: the real interpreter behind this one, without a virtual environment or shims."""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path

from agentgym.tools.sandbox.backend import SandboxStartFailed

RUN_STDIN = ("-s", "-S", "-c", "import sys; sys.path.remove(''); exec(sys.stdin.buffer.read()); start()")
"""Runs the function `start` of the program on stdin, with only the standard library.

Without `-I`, which would ignore `HASH_SEED`.
"""
HASH_SEED = {"PYTHONHASHSEED": "0"}
"""Sets print in the same order in every process, so that episodes can be replayed."""
_SYSTEM_PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3")
_SYSTEM_PATHS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@cache
def executable() -> str:
    """Return the absolute path of the real interpreter."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return os.path.realpath(base)


@cache
def for_all_users() -> str:
    """Return an interpreter that users other than root can run: the real one, or the system's.

    Raises:
        SandboxStartFailed: No such interpreter is installed.
    """
    candidates = [executable(), *(os.path.realpath(path) for path in _SYSTEM_PYTHONS)]
    for path in candidates:
        if _open_to_all(path):
            return path
    raise SandboxStartFailed(
        f"{candidates[0]!r} is in a folder that only its owner may enter, and no other Python was found; "
        "install one that every user can run"
    )


@cache
def prefix(program: str) -> str:
    """Return the folder that an interpreter is installed in."""
    return os.path.dirname(os.path.dirname(program))


def _open_to_all(path: str) -> bool:
    """Whether every user may run a program, which requires permission to enter all folders above it."""
    try:
        for part in (path, *map(str, Path(path).parents)):
            if not os.stat(part).st_mode & stat.S_IXOTH:
                return False
    except OSError:
        return False
    return True


def make_links(folder: str, program: str) -> str:
    """Create a folder whose `python` is that interpreter, and return it."""
    os.mkdir(folder)
    for name in ("python", "python3"):
        os.symlink(program, os.path.join(folder, name))
    return folder


def environment(home: str, tmp: str, links: str) -> dict[str, str]:
    """Return the base environment of runs, without any of the host's variables. `links` contains `python`."""
    return {
        "PATH": os.pathsep.join((links, *_SYSTEM_PATHS)),
        "HOME": home,
        "TMPDIR": tmp,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        **HASH_SEED,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
