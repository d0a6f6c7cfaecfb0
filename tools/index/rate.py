"""A rate limit shared by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from agentgym.errors import UsageError


class TokenBucket:
    """Lets `burst` calls pass immediately and `rate_per_s` in the long run; others wait.

    Args:
        rate_per_s: Calls per second in the long run.
        burst: Calls that may pass immediately after a pause.
        clock: A monotonic clock in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        rate_per_s: float,
        burst: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        if not rate_per_s > 0 or burst < 1:
            raise UsageError(f"a rate must be above 0 and a burst at least 1, not {rate_per_s!r} and {burst!r}")
        self.rate_per_s = rate_per_s
        self.burst = burst
        self._clock = clock
        self._sleep = sleep
        self._next = float("-inf")
        self._lock = threading.Lock()

    def take(self) -> float:
        """Wait until one more call may pass; return the seconds waited."""
        wait_s = self._reserve()
        if wait_s > 0:
            self._sleep(wait_s)
        return wait_s

    def _reserve(self) -> float:
        """Reserve the next free slot and return the seconds until it."""
        with self._lock:
            now = self._clock()
            # Slots are 1/rate apart; a pause leaves at most `burst` unused slots.
            place = max(self._next, now - (self.burst - 1) / self.rate_per_s)
            self._next = place + 1 / self.rate_per_s
            return max(0.0, place - now)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_next")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _next=float("-inf"), _lock=threading.Lock())
