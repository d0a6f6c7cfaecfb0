"""`Budget`: the time that everything which is run for one submission may take together."""

from __future__ import annotations

from agentgym.tools.sandbox import Ended, Limits, Result

CPU_S = 30.0
"""Seconds of processor time for a submission: loading it, every call, and every repetition of a run that was lost."""
WALL_S = 45.0
"""Seconds for the same as they pass on a clock, so that sleeping costs no more than working."""
LEAST_S = 0.5
"""With less than this left there are no more runs."""


class Budget:
    """Time that several runs share; each of them is bounded by what the others have left.

    Args:
        cpu_s: Seconds of processor time.
        wall_s: Seconds on the clock.
    """

    def __init__(self, cpu_s: float = CPU_S, wall_s: float = WALL_S):
        self.cpu_s, self.wall_s = cpu_s, wall_s

    @property
    def is_spent(self) -> bool:
        """Whether too little is left for another run."""
        return min(self.cpu_s, self.wall_s) < LEAST_S

    def within(self, limits: Limits) -> Limits:
        """Return limits of a run that ask for no more than what is left."""
        return limits.but(cpu_s=min(limits.cpu_s, self.cpu_s), wall_s=min(limits.wall_s, self.wall_s))

    def charge(self, result: Result) -> None:
        """Take off what a run has used."""
        self.wall_s -= result.duration_s
        # A run that is killed for its time may not say how much processor time it had.
        self.cpu_s -= result.duration_s if result.ended is Ended.CPU else result.usage.cpu_s
