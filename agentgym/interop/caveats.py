"""`Caveat`: a promise of `agentgym check` that a wrapped environment cannot keep, and why."""

from __future__ import annotations

from typing import NamedTuple


class Caveat(NamedTuple):
    """What is unsound about an environment of another package."""

    check: str | None
    """The guarantee of `agentgym check` that fails; `None` if none does, and it is worth knowing all the same."""
    why: str
    """What the package does, or lacks."""

    def __str__(self) -> str:
        return self.why if self.check is None else f"{self.check}: {self.why}"
