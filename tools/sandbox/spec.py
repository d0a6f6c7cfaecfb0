"""The specification of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.tools.sandbox.limits import SandboxLimits


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

    def __post_init__(self) -> None:
        for path in self.readable:
            if path.is_relative_to(self.workdir):
                raise UsageError(
                    f"readable={str(path)!r} lies inside the workspace {self.workdir!r}; "
                    "choose another workdir or move the folder"
                )
