"""Replaces agentgym's sandbox inside a container: each run is a plain process."""

from __future__ import annotations

import itertools
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from random import SystemRandom
from typing import Any

from agentgym.tools.sandbox.result import Ended, ResourceUsage, Result
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxTier

__all__ = ["Ended", "ResourceUsage", "Result", "Sandbox", "SandboxLimits", "SandboxTier"]

_FIRST_USER = SystemRandom().randrange(30_000, 50_000)
"""User id of the first sandbox if this runs as root; each sandbox has its own, to kill all its processes by."""
_MB = 1 << 20
_REPLY_FD = "AGENTGYM_REPLY_FD"
_users = itertools.count(_FIRST_USER)


class Sandbox:
    """A folder that Python programs run in. When a program ends, all processes it started are killed."""

    tier = SandboxTier.RLIMITS

    def __init__(self) -> None:
        self._user = next(_users)
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.workdir = os.path.realpath(self._folder.name)
        self._give(self.workdir)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all remaining processes and remove the files."""
        self._kill_all()
        self._folder.cleanup()

    def upload(self, tree: Mapping[str, bytes]) -> None:
        """Write files owned by the sandbox's user. Call it before any program runs, since it follows links."""
        for name, content in tree.items():
            place = os.path.normpath(os.path.join(self.workdir, name))
            if os.path.commonpath([place, self.workdir]) != self.workdir:
                raise ValueError(f"{name} is outside the workspace")
            self._make_folders(os.path.dirname(place))
            with open(place, "wb") as file:
                file.write(content)
            self._give(place)

    def exec(self, *, code: str, stdin: bytes, limits: SandboxLimits | None) -> Result:
        """Run a program and return its reply."""
        limits = limits or SandboxLimits()
        reading, writing = os.pipe()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        with tempfile.TemporaryFile() as stdin_file:
            stdin_file.write(stdin)
            stdin_file.seek(0)
            process: subprocess.Popen[Any] = subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                stdin=stdin_file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.workdir,
                env={_REPLY_FD: str(writing), "HOME": self.workdir, "PATH": os.defpath, "PYTHONHASHSEED": "0"},
                pass_fds=(writing,),
                start_new_session=True,
                preexec_fn=lambda: _limit(limits),
                **self._as_user(),
            )
            os.close(writing)
            reply, in_time = _reply_of(process, reading, began + limits.wall_s, limits.reply_bytes)
            os.close(reading)
            _kill(process)
            self._kill_all()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        ended, code_or_none, number = _ending(process.returncode, in_time)
        usage = ResourceUsage(cpu_s=cpu_s)
        return Result(b"", b"", code_or_none, ended, time.monotonic() - began, signal=number, usage=usage, reply=reply)

    def _make_folders(self, folder: str) -> None:
        if folder != self.workdir and not os.path.isdir(folder):
            self._make_folders(os.path.dirname(folder))
            os.mkdir(folder)
            self._give(folder)

    def _give(self, path: str) -> None:
        if os.geteuid() == 0:
            os.chown(path, self._user, self._user)

    def _kill_all(self) -> None:
        if os.geteuid() == 0:
            subprocess.run(["sh", "-c", "kill -9 -1"], check=False, **self._as_user())

    def _as_user(self) -> dict[str, Any]:
        ids = {"user": self._user, "group": self._user, "extra_groups": []}
        return ids if os.geteuid() == 0 else {}


def _limit(limits: SandboxLimits) -> None:
    cpu_s = max(1, round(limits.cpu_s))
    for what, bound in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, limits.memory_mb * _MB),
        (resource.RLIMIT_FSIZE, limits.file_mb * _MB),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (bound, bound + (what == resource.RLIMIT_CPU)))


def _reply_of(process: subprocess.Popen[Any], fd: int, deadline: float, most: int) -> tuple[bytes, bool]:
    """Return what the process wrote until it ended, and whether it ended in time."""
    reply = bytearray()
    os.set_blocking(fd, False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(fd, selectors.EVENT_READ)
        is_open = True
        while is_open and len(reply) <= most:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return bytes(reply), False
            if waiting.select(min(remaining_s, 0.1)):
                piece = os.read(fd, 65536)
                reply += piece
                is_open = bool(piece)
            elif process.poll() is not None:
                break
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return bytes(reply), False
    return bytes(reply), True


def _kill(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending(code: int, in_time: bool) -> tuple[Ended, int | None, int | None]:
    if not in_time:
        return Ended.TIMEOUT, None, None
    if code == -signal.SIGXCPU:
        return Ended.CPU, None, None
    return (Ended.SIGNALED, None, -code) if code < 0 else (Ended.EXITED, code, None)
