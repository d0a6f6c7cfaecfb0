"""A time budget for checks whose work is open-ended."""

from __future__ import annotations

import time

_WAITING = 2.5
"""Wall-clock time allowed per second of CPU time: the machine may be busy, or the environment may wait."""


class Patience:
    """A budget of CPU seconds, with a wall-clock limit several times as long.

    Counting CPU time keeps a busy machine from reducing what the checks examine.
    """

    def __init__(self, seconds: float):
        self._computed_until = time.process_time() + seconds
        self._until = time.monotonic() + _WAITING * seconds

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return time.process_time() > self._computed_until or time.monotonic() > self._until
