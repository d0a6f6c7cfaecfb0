"""The tier for environments without namespaces, such as most containers: Landlock, seccomp, limits, separate uids."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from itertools import count
from typing import Any

from agentgym.tools.sandbox import folders, interpreter, users
from agentgym.tools.sandbox.backend import (
    FORGED_RESULTS_HELD,
    IDLE_CPU_HELD,
    SIDE_CHANNELS_OPEN,
    Protection,
    Threat,
    held,
    not_held,
    partly,
)
from agentgym.tools.sandbox.folders import LockedFolder
from agentgym.tools.sandbox.forking import ForkingBackend
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False

_OF_ROOT: Mapping[Threat, Protection] = {
    Threat.FILES: partly(
        "Landlock allows only programs, libraries and the workspace; the names, sizes and times of other files are "
        "visible, and times (and, for files of the same user, permissions) can be changed where ownership allows it"
    ),
    Threat.NETWORK: held("seccomp blocks sockets"),
    Threat.PROCESSES: held("each sandbox has its own uid; /proc is not readable"),
    Threat.ENVIRONMENT: held("started by exec with a clean environment; /proc is not readable"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities; no_new_privs"),
    Threat.KERNEL: held("seccomp blocks mounts, namespaces, tracing, keys, io_uring, bpf and similar calls"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("checked ten times a second"),
    Threat.CPU: held("limits on CPU and wall time, enforced by SIGKILL"),
    Threat.FORKS: held("limit on processes of the sandbox's user"),
    Threat.DISK: partly("limit on the size of a file; the workspace as a whole is checked ten times a second"),
    Threat.INODES: partly("checked ten times a second"),
    Threat.DAEMONS: held("all processes of the sandbox's user are killed after each run"),
    Threat.NEIGHBOURS: held("each sandbox has its own uid"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a separate uid; a low limit on queued signals; seccomp blocks the other resources with per-user quotas"
    ),
    Threat.FILE_LOCKS: not_held("locks on readable host files are visible to other users of those files"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}
_OF_OTHERS: Mapping[Threat, Protection] = {
    **_OF_ROOT,
    Threat.PROCESSES: partly("Landlock blocks signals and tracing where the kernel supports it (6.12); same uid"),
    Threat.FORKS: partly("checked ten times a second"),
    Threat.DAEMONS: partly("orphans are reparented to the agent, which kills them after each run"),
    Threat.NEIGHBOURS: partly("separated by Landlock; same uid"),
    Threat.KERNEL_QUOTAS: partly(
        "a low limit on queued signals, and seccomp blocks the other per-user quotas; but all sandboxes share our uid"
    ),
}


class LandlockBackend(ForkingBackend):
    """Starts sandboxes isolated by Landlock."""

    tier = SandboxTier.LANDLOCK
    base = _OF_ROOT if _ROOT else _OF_OTHERS

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._making = threading.Lock()
        self._base: LockedFolder | None = None

    def close(self) -> None:
        """Kill all zygotes, and remove what they left behind."""
        super().close()
        with self._making:
            if self._base is not None:
                self._base.close()
                self._base = None

    def request(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the settings specific to a new sandbox."""
        name = str(next(self._numbers))
        return {"folder": name, "uid": users.fresh_user() if _ROOT else None}

    def workdir(self, spec: SandboxSpec, request: Mapping[str, Any]) -> str:
        """Return the path of a new sandbox's workspace; without mounts it cannot be the spec's `workdir`."""
        return os.path.join(self._folder().path, request["folder"], "work")

    def environment(self) -> Mapping[str, str]:
        """Return the environment of runs, without HOME, which each agent sets."""
        return interpreter.environment(home="/tmp", tmp="/tmp", links=os.path.join(self._folder().path, "bin"))

    def program(self) -> str:
        """Return an interpreter that the sandboxes' users may run."""
        return interpreter.for_all_users() if _ROOT else interpreter.executable()

    def zygote_settings(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the zygote's settings."""
        base = self._folder()
        return {**super().zygote_settings(spec), "base": base.path, "held": [base.lock]}

    def _folder(self) -> LockedFolder:
        """Return the parent folder of all this process's sandboxes; the zygotes lock it too."""
        with self._making:
            if self._base is None:
                folders.sweep()
                self._base = LockedFolder()
                os.chmod(interpreter.make_links(os.path.join(self._base.path, "bin"), self.program()), 0o755)
            return self._base
