"""`Budget`: the time that all runs for one submission share."""

from __future__ import annotations

from agentgym.tools.sandbox import Ended, Result, SandboxLimits

CPU_S = 30.0
"""Seconds of processor time for a submission: loading it, every call, and every retry of a lost run."""
WALL_S = 45.0
"""Wall-clock seconds for the same, so that code cannot gain time by sleeping."""
MIN_S = 0.5
"""A run starts only with at least this much time left."""


class Budget:
    """Time that several runs share; each may use what the earlier ones have left.

    Args:
        cpu_s: Seconds of processor time.
        wall_s: Seconds of wall-clock time.
    """

    def __init__(self, cpu_s: float = CPU_S, wall_s: float = WALL_S):
        self.cpu_s, self.wall_s = cpu_s, wall_s

    @property
    def is_spent(self) -> bool:
        """Whether too little is left for another run."""
        return min(self.cpu_s, self.wall_s) < MIN_S

    def within(self, limits: SandboxLimits) -> SandboxLimits:
        """Return the limits of a run, reduced to what is left."""
        return limits.but(cpu_s=min(limits.cpu_s, self.cpu_s), wall_s=min(limits.wall_s, self.wall_s))

    def charge(self, result: Result) -> None:
        """Deduct what a run has used."""
        self.wall_s -= result.duration_s
        # A run killed for its processor time may not report how much it used.
        self.cpu_s -= result.duration_s if result.ended is Ended.CPU else result.usage.cpu_s
