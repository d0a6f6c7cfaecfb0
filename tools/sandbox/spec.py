"""What kind of sandbox is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.tools.sandbox.limits import Limits


class Tier(StrEnum):
    """How a sandbox holds what runs in it, strongest first for code that needs no image."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    RLIMITS = "rlimits"
    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"
    REMOTE = "remote"


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox starts from. Equal specs may share a pool of sandboxes made ahead."""

    limits: Limits = field(default_factory=Limits)
    template: Path | None = None
    """A folder whose files the workspace begins with. Never written to."""
    image: str | None = None
    """A Docker image; only the Docker backend has images."""
    workdir: str = "/work"
    """Where the workspace is, as the sandboxed code sees it."""
    preload: tuple[str, ...] = ()
    """Modules imported before the sandbox is made, so that code in it finds them loaded."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the runs. Nothing of the host's own environment is ever added."""
    readable: tuple[Path, ...] = ()
    """Folders of the host that runs see read-only, at the same path."""

    def __post_init__(self) -> None:
        for path in self.readable:
            if path.is_relative_to(self.workdir):
                raise UsageError(
                    f"readable={str(path)!r} lies where sandboxes have their workspace, {self.workdir!r}; "
                    "choose another workdir, or another place for the folder"
                )
