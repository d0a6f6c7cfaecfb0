"""`Decisions`: counts of binary decisions, with precision, recall and F1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Decisions:
    """Counts of binary decisions."""

    right: int = 0
    """True positives."""
    wrong: int = 0
    """False positives."""
    missed: int = 0
    """False negatives."""
    rejected: int = 0
    """True negatives."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Decisions:
        """Count pairs of a decision and the truth."""
        counts = {(decided, true): 0 for decided in (True, False) for true in (True, False)}
        for decided, true in pairs:
            counts[bool(decided), bool(true)] += 1
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """Number of decisions."""
        return self.right + self.wrong + self.missed + self.rejected

    @property
    def precision(self) -> float:
        """Share of positive decisions that are right; 0 without positive decisions."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 0.0

    @property
    def recall(self) -> float:
        """Share of true cases with a positive decision; 0 without true cases."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        both = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / both if both else 0.0
