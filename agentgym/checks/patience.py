"""How long a check goes on with work of which there is always more."""

from __future__ import annotations

import time

_WAITING = 2.5
"""How many times longer it may take on the clock: the machine may be busy, or the environment wait."""


class Patience:
    """Runs out after some seconds of computing, or after several times as many on the clock.

    So a busy machine does not make checks look at less.
    """

    def __init__(self, seconds: float):
        self._computed_until = time.process_time() + seconds
        self._until = time.monotonic() + _WAITING * seconds

    @property
    def is_over(self) -> bool:
        """Whether it has run out."""
        return time.process_time() > self._computed_until or time.monotonic() > self._until
