"""The strongest tier without a daemon: namespaces, a separate file system, Landlock, seccomp, limits."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.tools.sandbox import interpreter, users
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
from agentgym.tools.sandbox.forking import ForkingBackend
from agentgym.tools.sandbox.spec import SandboxTier

_PROTECTIONS: Mapping[Threat, Protection] = {
    Threat.FILES: held("a separate file system with only the host's programs and libraries, read-only; Landlock"),
    Threat.NETWORK: held("a network namespace without interfaces; seccomp blocks sockets"),
    Threat.PROCESSES: held("a separate PID namespace"),
    Threat.ENVIRONMENT: held("started by exec with a clean environment; the host's processes are not visible"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities in a user namespace; no_new_privs"),
    Threat.KERNEL: held("seccomp blocks mounts, namespaces, tracing, keys, io_uring, bpf and similar calls"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("checked ten times a second"),
    Threat.CPU: held("limits on CPU and wall time, enforced by SIGKILL"),
    Threat.FORKS: held("limit on processes, counted per sandbox"),
    Threat.DISK: held("the workspace is a tmpfs of limited size"),
    Threat.INODES: held("the workspace is a tmpfs with a limited number of files"),
    Threat.DAEMONS: held("all processes in the namespace are killed after each run"),
    Threat.NEIGHBOURS: held("sandboxes share no namespaces"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a separate uid; a low limit on queued signals; seccomp blocks the other resources with per-user quotas"
    )
    if users.can_assign()
    else partly(
        "a low limit on queued signals, and seccomp blocks the other per-user quotas; but all sandboxes share our uid"
    ),
    Threat.FILE_LOCKS: partly("locks on some host files, such as devices, are visible to other users of those files"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}


class NamespacesBackend(ForkingBackend):
    """Starts sandboxes in Linux namespaces."""

    tier = SandboxTier.NAMESPACES
    base = _PROTECTIONS

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """How well each threat is held on this machine."""
        protections = super().protections
        if not self.own_files:
            return protections
        return {
            **protections,
            Threat.FILE_LOCKS: held("every visible file belongs to the sandbox; only the content is shared"),
        }

    def environment(self) -> Mapping[str, str]:
        """Return the environment of runs."""
        return interpreter.environment(home="/tmp", tmp="/tmp", links="/run/bin")
