"""`Caveat`: a promise of `agentgym check` that a wrapped environment cannot keep, and why."""

from __future__ import annotations

from typing import NamedTuple


class Caveat(NamedTuple):
    """A weakness of an environment of another package."""

    check: str | None
    """The guarantee of `agentgym check` that fails; `None` for a mere remark."""
    why: str
    """The package's fault or gap."""

    def __str__(self) -> str:
        return self.why if self.check is None else f"{self.check}: {self.why}"
