"""The strongest tier without a daemon: namespaces, an own file system, Landlock, seccomp, limits."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.tools.sandbox import interpreter, users
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
from agentgym.tools.sandbox.spec import Tier

_PROTECTIONS: Mapping[Threat, Protection] = {
    Threat.FILES: held("a file system of its own; of the host only programs and libraries, read-only; Landlock"),
    Threat.NETWORK: held("a network namespace without interfaces; sockets are refused by seccomp"),
    Threat.PROCESSES: held("a process namespace of its own"),
    Threat.ENVIRONMENT: held("started by exec with a clean environment; the host's processes are not visible"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities in a user namespace; no_new_privs"),
    Threat.KERNEL: held("seccomp refuses mounts, namespaces, tracing, keys, io_uring, bpf and their like"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("looked at ten times a second"),
    Threat.CPU: held("limits on processor and wall time, ended by SIGKILL"),
    Threat.FORKS: held("limit on processes, counted for each sandbox"),
    Threat.DISK: held("the workspace is a tmpfs of limited size"),
    Threat.INODES: held("the workspace is a tmpfs with a limited number of files"),
    Threat.DAEMONS: held("all processes of the namespace are killed after each run"),
    Threat.NEIGHBOURS: held("no namespace is shared with another sandbox"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a user id of its own; few signals can be queued; seccomp refuses what else is counted by user"
    )
    if users.are_ours_to_give()
    else partly(
        "few signals can be queued, and seccomp refuses what else is counted by user; but all have our user id"
    ),
    Threat.FILE_LOCKS: partly("locks on some of the host's files, such as devices, are seen by whoever uses them too"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}


class NamespacesBackend(ForkingBackend):
    """Starts sandboxes of Linux namespaces."""

    tier = Tier.NAMESPACES
    base = _PROTECTIONS

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """What it holds on this machine."""
        found = super().protections
        if not self.own_files:
            return found
        return {
            **found,
            Threat.FILE_LOCKS: held("every file that is seen is the sandbox's own; only the content is shared"),
        }

    def environment(self) -> Mapping[str, str]:
        """Return the environment of runs."""
        return interpreter.environment(home="/tmp", tmp="/tmp", links="/run/bin")
