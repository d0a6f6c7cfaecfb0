"""What a sandbox and each run in it may use. Every bound is enforced by the backend, or declared as not held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from agentgym.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Bounds on one run. Those of the workspace and of all processes together are fixed when the sandbox starts."""

    wall_s: float = 10.0
    """Seconds from start to end, sleeping included."""
    cpu_s: float = 10.0
    """Seconds of processor time of one process."""
    memory_mb: int = 1024
    """Address space of one process."""
    total_memory_mb: int = 1536
    """Memory of all processes of the sandbox together."""
    processes: int = 64
    """Processes and threads at one time."""
    open_files: int = 256
    file_mb: int = 64
    """Size of one file."""
    disk_mb: int = 256
    """All files of the workspace and the temporary folder together."""
    files: int = 20_000
    """Number of files and directories."""
    output_bytes: int = 64_000
    """Bytes kept of each of stdout and stderr: its beginning and its end. A flood far beyond ends the run."""
    reply_bytes: int = 8_000_000
    """Bytes accepted on the private reply descriptor."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise UsageError(f"sandbox limit {each.name} must be above 0, not {getattr(self, each.name)!r}")

    def but(self, **changes: Any) -> Self:
        """Return these limits with some of them changed."""
        return replace(self, **changes)

    def refuse_above(self, wanted: Mapping[str, Any]) -> None:
        """Refuse limits of which one is above these, or no number; names that are no limits do not matter.

        Raises:
            UsageError: It names the limit, what is wanted, and what can be had.
        """
        for each in fields(self):
            value, most = wanted.get(each.name, 0), getattr(self, each.name)
            if not isinstance(value, int | float) or not value <= most:
                raise UsageError(f"limits.{each.name}={value!r} is above {most!r}, the most that is given here")

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as JSON data."""
        return dict(vars(self))
