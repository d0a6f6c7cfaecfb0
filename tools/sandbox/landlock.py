"""The tier for places where namespaces are refused, as in most containers: Landlock, seccomp, limits, own user ids."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from agentgym.tools.sandbox import interpreter, users
from agentgym.tools.sandbox.forking import ForkingBackend
from agentgym.tools.sandbox.protection import Protection, Threat, held, partly
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

_PREFIX = "agentgym-sandboxes-"
_ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False

_OF_ROOT: Mapping[Threat, Protection] = {
    Threat.FILES: partly(
        "Landlock allows programs, libraries and the workspace only; of other files names, sizes and times can be "
        "seen, and the times (and of its own user the permissions) changed where the owner's rights allow it"
    ),
    Threat.NETWORK: held("sockets are refused by seccomp"),
    Threat.PROCESSES: held("each sandbox has a user id of its own; /proc is not readable"),
    Threat.ENVIRONMENT: held("started by exec with a clean environment; /proc is not readable"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities; no_new_privs"),
    Threat.KERNEL: held("seccomp refuses mounts, namespaces, tracing, keys, io_uring, bpf and their like"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("looked at ten times a second"),
    Threat.CPU: held("limits on processor and wall time, ended by SIGKILL"),
    Threat.FORKS: held("limit on processes of the sandbox's user"),
    Threat.DISK: partly("limit on the size of a file; the workspace as a whole is looked at ten times a second"),
    Threat.INODES: partly("looked at ten times a second"),
    Threat.DAEMONS: held("all processes of the sandbox's user are killed after each run"),
    Threat.NEIGHBOURS: held("each sandbox has a user id of its own"),
}
_OF_OTHERS: Mapping[Threat, Protection] = {
    **_OF_ROOT,
    Threat.PROCESSES: partly("signals and tracing are held by Landlock where the kernel has it (6.12); same user id"),
    Threat.FORKS: partly("looked at ten times a second"),
    Threat.DAEMONS: partly("orphans come back to the agent, which ends them after each run"),
    Threat.NEIGHBOURS: partly("kept apart by Landlock; same user id"),
}


class LandlockBackend(ForkingBackend):
    """Starts sandboxes held by Landlock."""

    tier = Tier.LANDLOCK
    base = _OF_ROOT if _ROOT else _OF_OTHERS

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._making = threading.Lock()
        self._base: _Base | None = None

    def close(self) -> None:
        """End all zygotes, and remove what they left."""
        super().close()
        with self._making:
            if self._base is not None:
                self._base.close()

    def request(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return what the zygote is to know about a new sandbox."""
        name = str(next(self._numbers))
        return {"folder": name, "uid": users.fresh_user() if _ROOT else None}

    def workdir(self, spec: SandboxSpec, request: Mapping[str, Any]) -> str:
        """Return where a new sandbox's workspace will be; without mounts it cannot be where the spec says."""
        return os.path.join(self._folder().path, request["folder"], "work")

    def settings(self, spec: SandboxSpec, workdir: str) -> Mapping[str, Any]:
        """Return an agent's settings."""
        tmp = os.path.join(os.path.dirname(workdir), "tmp")
        return {
            "workdir": workdir,
            "environment": interpreter.environment(home=tmp, tmp=tmp, links=os.path.join(self._folder().path, "bin")),
            "limits": spec.limits.to_dict(),
            "watched": [workdir, tmp],
        }

    def program(self) -> str:
        """Return the interpreter of the zygotes: one that the sandboxes' users may run."""
        return interpreter.for_everybody() if _ROOT else interpreter.executable()

    def zygote_settings(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the zygote's settings."""
        base = self._folder()
        return {**super().zygote_settings(spec), "base": base.path, "held": [base.lock]}

    def _folder(self) -> _Base:
        with self._making:
            if self._base is None:
                _sweep()
                self._base = _Base(self.program())
            return self._base


class _Base:
    """The folder of all sandboxes of a process, locked as long as the process or a zygote of it lives."""

    def __init__(self, program: str) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        os.chmod(self.path, 0o711)
        links = interpreter.make_links(os.path.join(self.path, "bin"), program)
        os.chmod(links, 0o755)

    def close(self) -> None:
        """Remove the folder, if anything is left of it."""
        os.close(self.lock)
        _remove(self.path)


def _sweep() -> None:
    """Remove the folders of processes that were killed before they could."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(str(path))
        except OSError:
            pass
        finally:
            os.close(fd)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
