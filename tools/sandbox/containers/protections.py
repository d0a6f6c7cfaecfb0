"""The protection table of containers."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.tools.sandbox.containers.hardening import Hardening
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


def protections_of(hardening: Hardening) -> Mapping[Threat, Protection]:
    """Return the protection table of a backend's containers."""
    return {
        Threat.FILES: held("a separate file system from the image")
        if hardening.writable_root
        else held("a separate, read-only file system from the image"),
        Threat.NETWORK: held("an empty network namespace")
        if hardening.network == "none"
        else not_held(f"the container is on the network {hardening.network!r}"),
        Threat.PROCESSES: held("a separate PID namespace"),
        Threat.ENVIRONMENT: held("only the variables of the image and the spec; the driver runs outside"),
        Threat.PRIVILEGE: held(f"{_user(hardening)}, {_capabilities(hardening)}, no_new_privs")
        if not (hardening.user or "").startswith("0:")
        else partly(f"root in the container, {_capabilities(hardening)}, with no_new_privs"),
        Threat.KERNEL: held("Docker's seccomp filter and, if the image has python3, a stricter one of the agent"),
        Threat.MEMORY: held("a limit per process, and the container's limit"),
        Threat.TOTAL_MEMORY: held("the container's limit, without swap; workspace files count too"),
        Threat.CPU: held(f"limits on CPU time per process and wall time, {hardening.cpus:g} CPUs"),
        Threat.FORKS: held("the container's limit on processes"),
        Threat.DISK: partly("the image's files are writable; disk usage is checked periodically")
        if hardening.writable_root
        else held("the workspace and the temporary folder are size-limited tmpfs"),
        Threat.INODES: partly("the image's files are writable; disk usage is checked periodically")
        if hardening.writable_root
        else held("the workspace and the temporary folder have a limited number of files"),
        Threat.DAEMONS: held("all processes except those of live sessions are killed after each run"),
        Threat.NEIGHBOURS: held("every sandbox has a separate container"),
        Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
        Threat.IDLE_CPU: held(IDLE_CPU_HELD),
        Threat.KERNEL_QUOTAS: held(
            "a separate uid; a low limit on queued signals; the agent's filter blocks the other per-user quotas"
        )
        if hardening.user is None
        else partly(f"a low limit on queued signals, but all containers share the user {hardening.user}"),
        Threat.FILE_LOCKS: held("containers share no files except for the spec's readable folders"),
        Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
    }


def _capabilities(hardening: Hardening) -> str:
    names = ", ".join(hardening.capabilities)
    return f"with the capabilities {names}" if names else "without capabilities"


def _user(hardening: Hardening) -> str:
    return "a separate user" if hardening.user is None else f"user {hardening.user}"
