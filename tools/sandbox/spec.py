"""The specification of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from agentgym.base.errors import UsageError


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one run. Those on the workspace and on all processes together are fixed when the sandbox starts."""

    wall_s: float = 10.0
    """Wall-clock seconds."""
    cpu_s: float = 10.0
    """CPU seconds of one process."""
    memory_mb: int = 1024
    """Address space of one process."""
    total_memory_mb: int = 1536
    """Memory of all the sandbox's processes together."""
    processes: int = 64
    """Processes and threads that exist at the same time."""
    open_files: int = 256
    file_mb: int = 64
    """Size of one file."""
    disk_mb: int = 256
    """Total size of all files in the workspace and the temporary folder."""
    files: int = 20_000
    """Number of files and directories."""
    output_bytes: int = 64_000
    """Bytes kept of each of stdout and stderr: the beginning and the end. A run that writes far more is stopped."""
    reply_bytes: int = 8_000_000
    """Bytes accepted on the private reply descriptor."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            if not getattr(self, limit.name) > 0:
                raise UsageError(f"sandbox limit {limit.name} must be above 0, not {getattr(self, limit.name)!r}")

    def but(self, **changes: Any) -> Self:
        """Return a copy with some limits changed."""
        return replace(self, **changes)

    def refuse_above(self, requested: Mapping[str, Any]) -> None:
        """Reject limits that are above these, or not numbers; other keys are ignored.

        Raises:
            UsageError: Names the limit, the requested value and the maximum.
        """
        for limit in fields(self):
            value, most = requested.get(limit.name, 0), getattr(self, limit.name)
            if not isinstance(value, int | float) or not value <= most:
                raise UsageError(f"limits.{limit.name}={value!r} is above {most!r}, the maximum allowed here")

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as JSON data."""
        return dict(vars(self))


class SandboxTier(StrEnum):
    """The kind of isolation, strongest first for code that needs no image."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    RLIMITS = "rlimits"
    DOCKER = "docker"
    REMOTE = "remote"


@dataclass(frozen=True)
class SandboxSpec:
    """How to create a sandbox. Equal specs share a pool of ready sandboxes."""

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    template: Path | None = None
    """A folder with the workspace's initial files. Never written to."""
    image: str | None = None
    """A Docker image; only the Docker backend supports images."""
    workdir: str = "/work"
    """Where the workspace is, as the sandboxed code sees it."""
    preload: tuple[str, ...] = ()
    """Modules imported before the sandbox starts, so that code in it finds them loaded."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of runs. The host's environment is never passed on."""
    readable: tuple[Path, ...] = ()
    """Folders of the host that runs can read, at the same path."""
    sealed: bool = False
    """Show nothing of the host but Python's standard library, a shell, `preload` and `readable`, as copies in memory.

    Meant for runs with secrets, such as hidden tests: sandboxes that read the same files of the host could signal to
    each other through the page cache. Only the namespaces backend supports it fully.
    """

    def __post_init__(self) -> None:
        for path in self.readable:
            if path.is_relative_to(self.workdir):
                raise UsageError(
                    f"readable={str(path)!r} lies inside the workspace {self.workdir!r}; "
                    "choose another workdir or move the folder"
                )
