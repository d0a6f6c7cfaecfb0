"""`Tally`: what a server of environments has done, counted without making its threads wait for each other."""

from __future__ import annotations

import threading
from collections import Counter, deque

_MOST_NEW = 1000


class Tally:
    """Counts requests and the seconds spent on them.

    Hundreds of threads that share a lock spend more time on the lock than on short steps: whoever is interrupted while
    holding it makes all others queue. So threads only append to a list, which one of them now and then sums up.
    """

    def __init__(self) -> None:
        self._new: deque[tuple[str, str, float]] = deque()
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._busy_s: dict[str, float] = {}

    def note(self, op: str, outcome: str, seconds: float) -> None:
        """Count a request."""
        self._new.append((op, outcome, seconds))
        if len(self._new) >= _MOST_NEW and self._lock.acquire(blocking=False):
            try:
                self._sum_up()
            finally:
                self._lock.release()

    def totals(self) -> tuple[dict[tuple[str, str], int], dict[str, float]]:
        """Return the number of requests by operation and outcome, and the seconds spent by operation."""
        with self._lock:
            self._sum_up()
            return dict(self._counts), dict(self._busy_s)

    def _sum_up(self) -> None:
        for _ in range(len(self._new)):
            op, outcome, seconds = self._new.popleft()
            self._counts[op, outcome] += 1
            self._busy_s[op] = self._busy_s.get(op, 0.0) + seconds
