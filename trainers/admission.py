"""Decides which groups start and which a training step learns from, if groups of several steps overlap."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class AheadAdmission:
    """The groups of a run, numbered in the order of their start. Neither plays nor stores them.

    Every group is taken exactly once. A complete group waits for at most `ahead` further steps.
    """

    per_step: int
    """Groups that a step learns from."""
    ahead: int
    """Steps whose groups may run while a step's are awaited; 0 runs one step after the other."""
    total: int
    """Groups of the run, a multiple of `per_step`."""
    next: int = 0
    """The first group that has not started."""
    running: set[int] = field(default_factory=set)
    """The groups that have started and are not complete."""
    complete: set[int] = field(default_factory=set)
    """The complete groups that no step has taken."""

    def start(self) -> range:
        """Return the groups that start now."""
        room = self.per_step * (1 + self.ahead) - len(self.running) - len(self.complete)
        numbers = range(self.next, max(self.next, min(self.total, self.next + room)))
        self.next = numbers.stop
        self.running.update(numbers)
        return numbers

    def finish(self, number: int) -> None:
        """Note that a running group is complete."""
        self.running.remove(number)
        self.complete.add(number)

    def take(self) -> list[int] | None:
        """Return the oldest complete groups for a step, or `None` if there are too few."""
        if len(self.complete) < self.per_step:
            return None
        oldest = sorted(self.complete)[: self.per_step]
        self.complete.difference_update(oldest)
        return oldest
