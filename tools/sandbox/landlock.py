"""The tier for places where namespaces are refused, as in most containers: Landlock, seccomp, limits, own user ids."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from itertools import count
from typing import Any

from agentgym.tools.sandbox import folders, interpreter, users
from agentgym.tools.sandbox.folders import LockedFolder
from agentgym.tools.sandbox.forking import ForkingBackend
from agentgym.tools.sandbox.protection import (
    FORGED_RESULTS_HELD,
    IDLE_CPU_HELD,
    SIDE_CHANNELS_OPEN,
    Protection,
    Threat,
    held,
    not_held,
    partly,
)
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

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
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a user id of its own; few signals can be queued; seccomp refuses what else is counted by user"
    ),
    Threat.FILE_LOCKS: not_held("locks on files of the host that may be read are seen by whoever uses them too"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}
_OF_OTHERS: Mapping[Threat, Protection] = {
    **_OF_ROOT,
    Threat.PROCESSES: partly("signals and tracing are held by Landlock where the kernel has it (6.12); same user id"),
    Threat.FORKS: partly("looked at ten times a second"),
    Threat.DAEMONS: partly("orphans come back to the agent, which ends them after each run"),
    Threat.NEIGHBOURS: partly("kept apart by Landlock; same user id"),
    Threat.KERNEL_QUOTAS: partly(
        "few signals can be queued, and seccomp refuses what else is counted by user; but all have our id"
    ),
}


class LandlockBackend(ForkingBackend):
    """Starts sandboxes held by Landlock."""

    tier = Tier.LANDLOCK
    base = _OF_ROOT if _ROOT else _OF_OTHERS

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._making = threading.Lock()
        self._base: LockedFolder | None = None

    def close(self) -> None:
        """End all zygotes, and remove what they left."""
        super().close()
        with self._making:
            if self._base is not None:
                self._base.close()
                self._base = None

    def request(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return what the zygote is to know about a new sandbox."""
        name = str(next(self._numbers))
        return {"folder": name, "uid": users.fresh_user() if _ROOT else None}

    def workdir(self, spec: SandboxSpec, request: Mapping[str, Any]) -> str:
        """Return where a new sandbox's workspace will be; without mounts it cannot be where the spec says."""
        return os.path.join(self._folder().path, request["folder"], "work")

    def environment(self) -> Mapping[str, str]:
        """Return the environment of runs; their agents know better where home is."""
        return interpreter.environment(home="/tmp", tmp="/tmp", links=os.path.join(self._folder().path, "bin"))

    def program(self) -> str:
        """Return the interpreter of the zygotes: one that the sandboxes' users may run."""
        return interpreter.for_everybody() if _ROOT else interpreter.executable()

    def zygote_settings(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the zygote's settings."""
        base = self._folder()
        return {**super().zygote_settings(spec), "base": base.path, "held": [base.lock]}

    def _folder(self) -> LockedFolder:
        """Return the folder that all sandboxes of this process have their folders in; the zygotes lock it too."""
        with self._making:
            if self._base is None:
                folders.sweep()
                self._base = LockedFolder()
                os.chmod(interpreter.make_links(os.path.join(self._base.path, "bin"), self.program()), 0o755)
            return self._base
