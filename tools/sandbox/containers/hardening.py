"""The isolation of a container: converts a sandbox's limits to Docker's options."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec

_MB = 1 << 20
_USERS = range(30_000, 60_000)
"""Uids that are rarely in use, and that also exist on daemons with user namespace remapping."""
_AGENTS_PROCESSES = 8
"""Processes of init, the agent and its fork that supervises a run."""
_AGENTS_FILES = 1024
"""Open files of the agent, which sets lower limits for its runs."""


@dataclass(frozen=True)
class Hardening:
    """Settings shared by all containers of a backend. The defaults remove everything that code rarely needs."""

    user: str | None = None
    """Numeric user and group; by default each container has a separate user."""
    cpus: float = 1.0
    network: str = "none"
    writable_root: bool = False
    """Whether the image's files can be changed, for images that contain the work. Changes have no quota."""
    capabilities: tuple[str, ...] = ()
    """Kernel capabilities that programs keep. None by default; root without any can neither change owners nor users."""
    runtime: str | None = None
    """A different runtime configured in the daemon, such as `runsc`."""

    def __post_init__(self) -> None:
        if self.user is None:
            return
        user, _, group = self.user.partition(":")
        if not (user.isdigit() and group.isdigit()):
            raise UsageError(f"user must be two numbers such as '1000:1000', not {self.user!r}")

    def for_one(self) -> tuple[Hardening, str]:
        """Return the settings for one container, and its user: many kernel quotas are per user."""
        if self.user is not None:
            return self, self.user
        number = random.SystemRandom().choice(_USERS)
        user = f"{number}:{number}"
        return replace(self, user=user), user


def host_config(hardening: Hardening, spec: SandboxSpec) -> dict[str, Any]:
    """Return the arguments of `create_host_config`."""
    hardening, user = hardening.for_one()
    limits = spec.limits
    memory = limits.total_memory_mb * _MB
    return {
        "network_mode": hardening.network,
        "cap_drop": ["ALL"],
        "cap_add": list(hardening.capabilities),
        "security_opt": ["no-new-privileges"],
        "pids_limit": limits.processes + _AGENTS_PROCESSES,
        "mem_limit": memory,
        # The total of memory and swap: the same number means no swap.
        "memswap_limit": memory,
        "nano_cpus": round(hardening.cpus * 1e9),
        "read_only": not hardening.writable_root,
        "tmpfs": _folders_in_memory(hardening, user, limits, spec.workdir),
        "binds": [f"{folder}:{folder}:ro" for folder in map(_host_folder, spec.readable)],
        "ipc_mode": "private",
        "shm_size": 16 * _MB,
        "init": True,
        "log_config": {"Type": "none", "Config": {}},
        "ulimits": [_ulimit("nofile", max(_AGENTS_FILES, limits.open_files)), _ulimit("core", 1)],
        "auto_remove": True,
        "runtime": hardening.runtime,
    }


def _host_folder(folder: Path) -> str:
    if not folder.is_absolute() or ":" in str(folder) or not folder.is_dir():
        raise UsageError(f"readable: {str(folder)!r} must be the absolute path of a folder, without a colon")
    return str(folder)


def _folders_in_memory(hardening: Hardening, user: str, limits: SandboxLimits, workdir: str) -> dict[str, str]:
    """Return the writable tmpfs folders, which share the quota."""
    place = PurePosixPath(workdir)
    if not place.is_absolute() or len(place.parts) < 2:
        raise UsageError(f"workdir must be an absolute path below '/', not {workdir!r}")
    if hardening.writable_root:
        return {}
    if place == PurePosixPath("/tmp"):
        return {"/tmp": _tmpfs(user, limits.disk_mb, limits.files)}
    spare_mb, spare_files = max(1, limits.disk_mb // 4), max(1, limits.files // 4)
    return {
        str(place): _tmpfs(user, max(1, limits.disk_mb - spare_mb), max(1, limits.files - spare_files)),
        "/tmp": _tmpfs(user, spare_mb, spare_files),
    }


def _tmpfs(user: str, size_mb: int, files: int) -> str:
    uid, _, gid = user.partition(":")
    return f"rw,exec,nosuid,nodev,size={size_mb}m,nr_inodes={files},uid={uid},gid={gid},mode=0700"


def _ulimit(name: str, bound: int) -> dict[str, Any]:
    return {"Name": name, "Soft": bound, "Hard": bound}
