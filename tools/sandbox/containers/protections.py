"""What containers hold, as the rows of the table of protections."""

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
    """Return the table of a backend's containers."""
    return {
        Threat.FILES: held("a file system of its own, made of the image")
        if hardening.writable_root
        else held("a file system of its own, made of the image and read-only"),
        Threat.NETWORK: held("a network namespace with nothing in it")
        if hardening.network == "none"
        else not_held(f"the container is on the network {hardening.network!r}"),
        Threat.PROCESSES: held("a process namespace of its own"),
        Threat.ENVIRONMENT: held("only the image's variables and those of the spec; the driver is on the other side"),
        Threat.PRIVILEGE: held(f"{_user(hardening)}, no capabilities, no new privileges")
        if not (hardening.user or "").startswith("0:")
        else partly("root in the container, without capabilities and without new privileges"),
        Threat.KERNEL: held(
            "Docker's filter of system calls and, if the image has python3, a stricter one of the agent"
        ),
        Threat.MEMORY: held("a limit on each process, and the container's"),
        Threat.TOTAL_MEMORY: held("the container's limit, without swap; files of the workspace count too"),
        Threat.CPU: held(f"a limit on each process, wall time, {hardening.cpus:g} processors"),
        Threat.FORKS: held("the container's limit on processes"),
        Threat.DISK: partly("the image's own files can be written; what is written is looked at now and then")
        if hardening.writable_root
        else held("workspace and temporary folder are in memory, with a size"),
        Threat.INODES: partly("the image's own files can be written; what is written is looked at now and then")
        if hardening.writable_root
        else held("workspace and temporary folder have a number of files"),
        Threat.DAEMONS: held("all processes but those of live sessions are killed after each run"),
        Threat.NEIGHBOURS: held("every sandbox has a container of its own"),
        Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
        Threat.IDLE_CPU: held(IDLE_CPU_HELD),
        Threat.KERNEL_QUOTAS: held(
            "a user id of its own; few signals can be queued; the agent's filter refuses what else counts"
        )
        if hardening.user is None
        else partly(f"few signals can be queued, but all containers have the user {hardening.user}"),
        Threat.FILE_LOCKS: held(
            "every container has files of its own, but for the folders that the spec makes readable"
        ),
        Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
    }


def _user(hardening: Hardening) -> str:
    return "a user of its own" if hardening.user is None else f"user {hardening.user}"
