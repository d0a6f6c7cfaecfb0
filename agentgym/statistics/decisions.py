"""`Decisions`: counts of yes-or-no decisions against what was right, with precision, recall and F1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Decisions:
    """How often a decision was made, and whether rightly."""

    right: int = 0
    """Said, and true."""
    wrong: int = 0
    """Said, but not true."""
    missed: int = 0
    """True, but not said."""
    rejected: int = 0
    """Neither said nor true."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Decisions:
        """Count pairs of what was said and what is true."""
        counts = {(said, true): 0 for said in (True, False) for true in (True, False)}
        for said, true in pairs:
            counts[bool(said), bool(true)] += 1
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """Number of decisions."""
        return self.right + self.wrong + self.missed + self.rejected

    @property
    def precision(self) -> float:
        """Share of what was said that is true; 0 if nothing was said."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 0.0

    @property
    def recall(self) -> float:
        """Share of what is true that was said; 0 if nothing is true."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are."""
        both = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / both if both else 0.0
