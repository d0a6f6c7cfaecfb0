"""Decides which groups of an asynchronous run may start, and keeps account of those that are still to be trained on.

Pure: no clock, no threads. Groups are numbered from 0 over the whole run, across resumes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from agentgym.trainers.batches import TaskRow


@dataclass
class Admission:
    """The groups of a run.

    At most the groups of `max_staleness + 1` steps are open at a time, so that a group that is trained on in its turn
    is at most `max_staleness` updates old.
    """

    groups: int
    """Groups of a step."""
    max_staleness: int
    """Most updates between the sampling of a token and its loss."""
    next: int = 0
    """The number of the next group to admit."""
    open: list[int] = field(default_factory=list)
    """Groups that were admitted and have not been trained on, ascending."""

    def admit(self) -> list[int]:
        """Admit as many groups as may be open, and return their numbers."""
        room = max(0, (self.max_staleness + 1) * self.groups - len(self.open))
        fresh = list(range(self.next, self.next + room))
        self.next += room
        self.open += fresh
        return fresh

    def trained(self, numbers: Iterable[int]) -> None:
        """Close groups that an update has learned from. Raises `ValueError` if one is not open."""
        for number in numbers:
            self.open.remove(number)


def row_at(number: int, size: int | None, seed: int) -> TaskRow:
    """Return the task and the seed of a group.

    Args:
        number: The number of the group in the run.
        size: Number of tasks; every task comes once, in random order, before any comes again. `None` if endless.
        seed: Seed of the order.
    """
    episodes = random.Random(f"episodes/{seed}/{number}").getrandbits(31)
    if size is None:
        return TaskRow(random.Random(f"tasks/{seed}").randrange(2**20) + number, episodes)
    epoch, place = divmod(number, size)
    return TaskRow(_order(size, seed, epoch)[place], episodes)


@lru_cache(maxsize=4)
def _order(size: int, seed: int, epoch: int) -> list[int]:
    order = list(range(size))
    random.Random(f"tasks/{seed}/{epoch}").shuffle(order)
    return order
